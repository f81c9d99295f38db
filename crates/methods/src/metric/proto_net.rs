//! ProtoNet (Snell et al. 2017): a query belongs to the class whose mean support feature is nearest.

use crate::error::Result;
use crate::select;
use crate::settings::Settings;
use crate::shared::scores::{Scores, softmax_cross_entropy};
use crate::{EpisodeRows, Features, Method, OneNetwork, Place, Prediction, Setup, Share, TaskRows};
use serde::{Deserialize, Serialize};
use siskin_nn::{HeadLoss, Network, NoHead};

/// `[proto-net]` of a config file: there is nothing to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProtoNetSettings {}

impl Settings for ProtoNetSettings {
    const NAME: &'static str = "proto-net";
    const ABOUT: &'static str = "nearest class mean by squared Euclidean distance (Snell et al. 2017)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(ProtoNet::new(setup)?))
    }
}

/// The method: a backbone, and no parameter beside it.
pub struct ProtoNet {
    network: Network,
}

impl ProtoNet {
    /// A fresh model.
    pub fn new(setup: Setup) -> Result<ProtoNet> {
        Ok(ProtoNet { network: Network::new(setup.architecture, setup.seed, setup.device)? })
    }
}

/// p_c = mean of the support rows of class c, `[way, dim]`.
pub(crate) fn prototypes(support: &Features, labels: &[usize], way: usize) -> Features {
    let dim = support.dim;
    let mut sums = Features { values: vec![0.0; way * dim], rows: way, dim };
    let mut counts = vec![0.0; way];
    for (row, &c) in labels.iter().enumerate() {
        counts[c] += 1.0;
        let sum = &mut sums.values[c * dim..(c + 1) * dim];
        sum.iter_mut().zip(support.row(row)).for_each(|(s, x)| *s += x);
    }
    for (sum, count) in sums.values.chunks_exact_mut(dim).zip(&counts) {
        sum.iter_mut().for_each(|s| *s /= count);
    }
    sums
}

/// score_qc = -|z_q - p_c|^2.
pub(crate) fn scores(query: &Features, prototypes: &Features) -> Scores {
    let way = prototypes.rows;
    let distance = |q: usize, c: usize| -> f64 {
        query.row(q).iter().zip(prototypes.row(c)).map(|(z, p)| (z - p) * (z - p)).sum()
    };
    let values = (0..query.rows).flat_map(|q| (0..way).map(move |c| (q, c)));
    Scores { values: values.map(|(q, c)| -distance(q, c)).collect(), way }
}

/// Mean cross-entropy of the queries, its gradient with respect to all features, and the share of right queries.
pub(crate) fn loss(features: &Features, episode: &EpisodeRows<'_>) -> HeadLoss {
    let (support, query) = (select(features, episode.support), select(features, episode.query));
    let (labels, truth) = (episode.labels_of(episode.support), episode.labels_of(episode.query));
    let prototypes = prototypes(&support, &labels, episode.way);
    let scores = scores(&query, &prototypes);
    let (loss, dscores) = softmax_cross_entropy(&scores, &truth);

    // dscore_qc/dz_q = -2 (z_q - p_c), dscore_qc/dp_c = 2 (z_q - p_c), dp_c/dz_s = 1 / shots of c.
    let dim = features.dim;
    let mut dfeatures = vec![0.0; features.values.len()];
    let mut dprototypes = vec![0.0; prototypes.values.len()];
    for (q, &row) in episode.query.iter().enumerate() {
        for c in 0..episode.way {
            let d = dscores[q * episode.way + c];
            for j in 0..dim {
                let towards = 2.0 * d * (query.row(q)[j] - prototypes.row(c)[j]);
                dfeatures[row * dim + j] -= towards;
                dprototypes[c * dim + j] += towards;
            }
        }
    }
    for (&row, &c) in episode.support.iter().zip(&labels) {
        let shots = labels.iter().filter(|&&label| label == c).count() as f64;
        for j in 0..dim {
            dfeatures[row * dim + j] += dprototypes[c * dim + j] / shots;
        }
    }
    HeadLoss { loss, dfeatures, dhyper: Vec::new(), accuracy: Some(scores.accuracy(&truth)) }
}

impl OneNetwork for ProtoNet {
    type Head = NoHead;

    fn network(&self) -> &Network {
        &self.network
    }

    fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    fn shares(&self, episodes: &[EpisodeRows<'_>], _: Place) -> Result<Vec<Share>> {
        let share = |episode: &EpisodeRows<'_>| {
            Share::record(|step| {
                let outcome = self.network.episode(episode.images, step, |features| {
                    Ok::<_, crate::Error>(loss(features, episode))
                })?;
                Ok((outcome.loss, outcome.accuracy))
            })
        };
        episodes.iter().map(share).collect()
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let prototypes = prototypes(task.support.features()?, task.labels, task.way);
        Ok(scores(task.query.features()?, &prototypes).prediction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Images;
    use crate::shared::golden::{Golden, assert_close};

    #[test]
    fn loss_gradient_and_probabilities_equal_pytorchs() {
        let golden = Golden::parse(include_str!("../../tests/golden/proto_net.json"));
        let features = golden.table("features", 4);
        let (labels, support, query) =
            (golden.usizes("labels"), golden.usizes("support"), golden.usizes("query"));
        let pixels = [0.0; 12];
        let images = Images::new(&pixels, [12, 1, 1, 1]).unwrap();
        let episode = EpisodeRows { images, labels: &labels, support: &support, query: &query, way: 3 };
        let out = loss(&features, &episode);
        assert_close("loss", &[out.loss], &[golden.f64("loss")], 1e-8);
        assert_close("dfeatures", &out.dfeatures, &golden.f64s("dfeatures"), 1e-8);

        let shown: Vec<usize> = support.iter().map(|&r| labels[r]).collect();
        let prototypes = prototypes(&select(&features, &support), &shown, 3);
        let found = scores(&select(&features, &query), &prototypes).softmax();
        assert_close("probabilities", &found, &golden.f64s("probabilities"), 1e-8);
    }
}
