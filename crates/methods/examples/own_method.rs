//! A method of your own: settings, training step, prediction. Run it with
//!
//! ```text
//! cargo run --release -p siskin-methods --example own_method
//! ```
//!
//! The method names a query by the nearest class mean, with a sharpness that its settings choose. It is trained on
//! stripes of some directions and tested on stripes of others.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use siskin_methods::{
    EpisodeRows, Error, Features, Images, Method, MethodSettings, OneNetwork, Place, Prediction, Purpose,
    Rates, Result, Scores, Settings, Setup, Share, TaskRows, select, softmax_cross_entropy,
};
use siskin_nn::{Architecture, DeviceChoice, HeadLoss, Network, NoHead, stream};

// 1. What can be chosen. In a config file this is the table `[nearest-mean]`.

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NearestMeanSettings {
    /// Factor of the squared distances.
    sharpness: f64,
}

impl Default for NearestMeanSettings {
    fn default() -> Self {
        NearestMeanSettings { sharpness: 0.1 }
    }
}

impl Settings for NearestMeanSettings {
    const NAME: &'static str = "nearest-mean";
    const ABOUT: &'static str = "nearest class mean with a sharpness";
    const PAPER: &'static str = "not in it";

    fn check(&self) -> Result<()> {
        match self.sharpness > 0.0 {
            true => Ok(()),
            false => Err(Error::Value {
                key: "nearest-mean.sharpness".into(),
                value: self.sharpness.to_string(),
                must: "a number above 0",
            }),
        }
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        let network = Network::new(setup.architecture, setup.seed, setup.device)?;
        Ok(Box::new(NearestMean { network, sharpness: self.sharpness }))
    }
}

// 2. The method: a network (backbone, optimiser, device). One that learns more beside it implements `Method` itself.

struct NearestMean {
    network: Network,
    sharpness: f64,
}

impl NearestMean {
    /// score_qc = -sharpness |z_q - p_c|^2 with p_c the mean of the support of class c.
    fn scores(
        &self,
        support: &Features,
        labels: &[usize],
        way: usize,
        query: &Features,
    ) -> (Scores, Features) {
        let dim = support.dim;
        let mut means = Features { values: vec![0.0; way * dim], rows: way, dim };
        for (row, &c) in labels.iter().enumerate() {
            let shots = labels.iter().filter(|&&label| label == c).count() as f64;
            (0..dim).for_each(|d| means.values[c * dim + d] += support.row(row)[d] / shots);
        }
        let distance = |q: usize, c: usize| -> f64 {
            query.row(q).iter().zip(means.row(c)).map(|(z, p)| (z - p) * (z - p)).sum()
        };
        let pairs = (0..query.rows).flat_map(|q| (0..way).map(move |c| (q, c)));
        let values = pairs.map(|(q, c)| -self.sharpness * distance(q, c)).collect();
        (Scores { values, way }, means)
    }

    /// The loss of an episode's features, its gradient in them, and the share of right queries, which costs nothing here.
    fn loss(&self, features: &Features, episode: &EpisodeRows<'_>) -> HeadLoss {
        let (support, query) = (select(features, episode.support), select(features, episode.query));
        let (labels, truth) = (episode.labels_of(episode.support), episode.labels_of(episode.query));
        let (scores, means) = self.scores(&support, &labels, episode.way, &query);
        let (loss, dscores) = softmax_cross_entropy(&scores, &truth);
        let mut dfeatures = vec![0.0; features.values.len()];
        for (q, &row) in episode.query.iter().enumerate() {
            for c in 0..episode.way {
                let shots = labels.iter().filter(|&&label| label == c).count() as f64;
                for d in 0..features.dim {
                    let slope = 2.0
                        * self.sharpness
                        * dscores[q * episode.way + c]
                        * (query.row(q)[d] - means.row(c)[d]);
                    dfeatures[row * features.dim + d] -= slope;
                    for (&shown, _) in episode.support.iter().zip(&labels).filter(|(_, label)| **label == c) {
                        dfeatures[shown * features.dim + d] += slope / shots;
                    }
                }
            }
        }
        HeadLoss { loss, dfeatures, dhyper: Vec::new(), accuracy: Some(scores.accuracy(&truth)) }
    }
}

impl OneNetwork for NearestMean {
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
                let outcome = self
                    .network
                    .episode(episode.images, step, |features| Ok::<_, Error>(self.loss(features, episode)))?;
                Ok((outcome.loss, outcome.accuracy))
            })
        };
        episodes.iter().map(share).collect()
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let (support, query) = (task.support.features()?, task.query.features()?);
        Ok(self.scores(support, task.labels, task.way, query).0.prediction())
    }
}

// 3. Data: three classes of noisy stripes, one support and four query images of each.

const SIDE: usize = 28;
const WAY: usize = 3;
const EACH: usize = 5;

struct Stripes {
    pixels: Vec<f32>,
    labels: Vec<usize>,
    support: Vec<usize>,
    query: Vec<usize>,
}

impl Stripes {
    /// Classes are directions of one half of the circle in training, of the other at test.
    fn draw(name: &str, index: u64, first_angle: f64) -> Stripes {
        let mut rng = stream(7, name, index);
        let mut pixels = Vec::new();
        for class in 0..WAY {
            let shift: f64 = StandardNormal.sample(&mut rng);
            let angle = first_angle + 0.4 * (class as f64 + 0.2 * shift);
            for _ in 0..EACH {
                let phase: f64 = StandardNormal.sample(&mut rng);
                for place in 0..SIDE * SIDE {
                    let (x, y) = ((place % SIDE) as f64, (place / SIDE) as f64);
                    let noise: f64 = StandardNormal.sample(&mut rng);
                    let wave = (0.8 * (x * angle.cos() + y * angle.sin()) + 3.0 * phase).sin();
                    pixels.push((wave + noise) as f32);
                }
            }
        }
        let labels = (0..WAY * EACH).map(|row| row / EACH).collect();
        let (support, query) = (0..WAY * EACH).partition(|row| row % EACH == 0);
        Stripes { pixels, labels, support, query }
    }

    fn episode(&self) -> Result<EpisodeRows<'_>> {
        let images = Images::new(&self.pixels, [WAY * EACH, 1, SIDE, SIDE])?;
        Ok(EpisodeRows { images, labels: &self.labels, support: &self.support, query: &self.query, way: WAY })
    }
}

/// Mean accuracy on tasks of directions that training never shows.
fn test(method: &dyn Method) -> Result<f64> {
    let mut right = 0.0;
    for index in 0..40 {
        let drawn = Stripes::draw("test", index, 1.6);
        let episode = drawn.episode()?;
        let rows = method.embed(episode.images)?;
        let (support, query) = (rows.select(&drawn.support), rows.select(&drawn.query));
        let labels = episode.labels_of(&drawn.support);
        let task = TaskRows {
            support: &support,
            labels: &labels,
            way: WAY,
            query: &query,
            index,
            purpose: Purpose::Test,
        };
        let prediction = method.predict(&task)?;
        let scores = Scores { values: prediction.probabilities, way: WAY };
        right += scores.accuracy(&episode.labels_of(&drawn.query)) / 40.0;
    }
    Ok(right)
}

fn main() -> Result<()> {
    // 4. From settings to a method: what a config file does, by hand.
    let settings = MethodSettings::of(NearestMeanSettings { sharpness: 0.05 });
    settings.check()?;
    let setup = Setup {
        architecture: Architecture::Conv4S,
        image_size: SIDE,
        way: WAY,
        base_classes: Some(WAY),
        seed: 0,
        device: DeviceChoice::Cpu,
    };
    let mut method = settings.build(setup)?;

    println!("{}: accuracy before training {:.3}", settings.name(), test(method.as_ref())?);
    for index in 0..60 {
        let drawn = Stripes::draw("train", index, 0.0);
        let report = method.train_step(&[drawn.episode()?], Rates { network: 1e-3.into(), kernel: 1e-2 })?;
        if index % 20 == 19 {
            println!("episode {}: loss {:.3}", index + 1, report.loss);
        }
    }
    println!("accuracy after 60 episodes {:.3} (chance is {:.3})", test(method.as_ref())?, 1.0 / WAY as f64);
    Ok(())
}
