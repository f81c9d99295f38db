//! Predictions on many episodes: each image goes through the network once, then the episodes run side by side.

use crate::error::{Error, Result};
use crate::{exchange, team};
use rayon::prelude::*;
use siskin_calib::{Predictions, Probabilities};
use siskin_data::{Episode, Items, Split, Transform};
use siskin_methods::{Features, Images, LatentGaussians, Method, Prediction, Purpose, Rows, TaskRows};
use siskin_random::stream;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Vectors that go through a layer at a time: bounds the memory, changes no result.
const VECTORS: usize = 1_024;

/// What a method said of the queries of one episode, and what is true.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsweredEpisode {
    /// Probabilities and, where the method has them, latent Gaussians.
    pub prediction: Prediction,
    /// True classes of the queries.
    pub labels: Vec<usize>,
}

impl AnsweredEpisode {
    /// Share of queries whose most probable class is the true one.
    pub fn accuracy(&self) -> f64 {
        let rows = self.prediction.probabilities.chunks_exact(self.prediction.way);
        let right = rows.zip(&self.labels).filter(|(row, label)| siskin_calib::top(row).0 == **label).count();
        right as f64 / self.labels.len() as f64
    }
}

/// Who waits for answers: may stop the work, and hears how far it is.
pub struct Watch<'a> {
    /// Set by who does not want to wait any longer.
    pub stop: &'a AtomicBool,
    /// Called after each answered episode, from any thread.
    pub answered: &'a (dyn Fn() + Sync),
}

/// Answers to all episodes of one split, in order. Where `watch.stop` is set on the way: [`Error::Stopped`].
pub fn evaluate(
    method: &dyn Method,
    split: &Split,
    transform: &Transform,
    episodes: &[Episode],
    purpose: Purpose,
    watch: &Watch<'_>,
) -> Result<Vec<AnsweredEpisode>> {
    let embedded = embed_items(method, split, transform, episodes, watch.stop)?;
    let team = team::current();
    let own = team::own_part(team.as_ref(), episodes.len());
    let answers = episodes[own.clone()]
        .par_iter()
        .enumerate()
        .map(|(index, episode)| {
            go_on(watch.stop)?;
            let (items, labels) = (episode.items(), episode.labels());
            let part = |rows: &[usize]| -> (Rows, Vec<usize>) {
                let own: Vec<usize> = rows.iter().map(|&r| items[r]).collect();
                (embedded.select(&own), rows.iter().map(|&r| labels[r]).collect())
            };
            let (support, support_labels) = part(&episode.support_rows());
            let (query, labels) = part(&episode.query_rows());
            let (way, index) = (episode.way(), (own.start + index) as u64);
            let task =
                TaskRows { support: &support, labels: &support_labels, way, query: &query, index, purpose };
            let prediction = method.predict(&task)?;
            (watch.answered)();
            Ok(AnsweredEpisode { prediction, labels })
        })
        .collect::<Result<Vec<_>>>();
    exchange::answers(team.as_ref(), answers, watch.stop)
}

/// The items of some episodes as the method keeps them, each item once.
pub struct EmbeddedItems {
    rows: Rows,
    row_of: HashMap<usize, usize>,
}

impl EmbeddedItems {
    /// The rows of these items, in this order.
    pub fn select(&self, items: &[usize]) -> Rows {
        self.rows.select(&items.iter().map(|item| self.row_of[item]).collect::<Vec<_>>())
    }
}

/// Sends every item of `episodes` through the network once.
pub(crate) fn embed_items(
    method: &dyn Method,
    split: &Split,
    transform: &Transform,
    episodes: &[Episode],
    stop: &AtomicBool,
) -> Result<EmbeddedItems> {
    let mut items: Vec<usize> = episodes.iter().flat_map(Episode::items).collect();
    items.sort_unstable();
    items.dedup();
    let team = team::current();
    let rows = match &split.items {
        Items::Embeddings(_) => embed_until(method, split, transform, &items, stop)?,
        Items::Images(_) => {
            let own = &items[team::own_part(team.as_ref(), items.len())];
            exchange::rows(team.as_ref(), embed_until(method, split, transform, own, stop), stop)?
        }
    };
    let row_of = items.iter().enumerate().map(|(row, item)| (*item, row)).collect();
    Ok(EmbeddedItems { rows, row_of })
}

fn go_on(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}

/// Items of a split as the method keeps them, by the evaluation transform; precomputed features are taken as they are.
pub fn embed(method: &dyn Method, split: &Split, transform: &Transform, items: &[usize]) -> Result<Rows> {
    embed_until(method, split, transform, items, &AtomicBool::new(false))
}

fn embed_until(
    method: &dyn Method,
    split: &Split,
    transform: &Transform,
    items: &[usize],
    stop: &AtomicBool,
) -> Result<Rows> {
    match &split.items {
        Items::Embeddings(data) if data.network_input => {
            let part = |items: &[usize]| {
                let values: Vec<f32> = items.iter().flat_map(|&item| data.vector(item)).copied().collect();
                let images = Images::new(&values, [items.len(), data.dim(), 1, 1]);
                Ok(method.embed(images.map_err(siskin_methods::Error::from)?)?)
            };
            let parts = items.chunks(VECTORS).map(part).collect::<Result<Vec<Rows>>>()?;
            let none = || Rows::Features(Features { values: Vec::new(), rows: 0, dim: data.dim() });
            Ok(Rows::stack(parts)?.unwrap_or_else(none))
        }
        Items::Embeddings(data) => {
            let values = items.iter().flat_map(|&item| data.vector(item)).map(|&x| f64::from(x)).collect();
            Ok(Rows::Features(Features { values, rows: items.len(), dim: data.dim() }))
        }
        Items::Images(data) => {
            // Drawn from where the transform augments, as it may for a fit of scalars.
            let fill = |i: usize, out: &mut [f32]| {
                transform.apply(&data.image(items[i])?, &mut stream(0, "evaluate", items[i] as u64), out);
                Ok(())
            };
            Ok(siskin_model::embed(method, transform, items.len(), fill, stop)?)
        }
    }
}

/// All answers as one table of predictions.
pub fn pooled(answers: &[AnsweredEpisode]) -> Result<Predictions> {
    let way = answers.first().map_or(2, |a| a.prediction.way);
    if let Some(other) = answers.iter().find(|a| a.prediction.way != way) {
        return Err(Error::Run(format!(
            "there are episodes of {way} and of {} classes: their probabilities cannot be measured together. Give episodes \
             of one number of classes",
            other.prediction.way
        )));
    }
    let probabilities = answers.iter().flat_map(|a| a.prediction.floored()).collect();
    let labels = answers.iter().flat_map(|a| a.labels.iter().copied()).collect();
    Ok(Predictions::with_labels(Probabilities::new(probabilities, way)?, labels)?)
}

/// All latent Gaussians as one table, where the method has them.
pub(crate) fn pooled_latent(answers: &[AnsweredEpisode]) -> Option<LatentGaussians> {
    let tau = answers.first()?.prediction.latent.as_ref()?.tau;
    let mut all = LatentGaussians { mean: Vec::new(), variance: Vec::new(), tau };
    for answer in answers {
        let latent = answer.prediction.latent.as_ref()?;
        all.mean.extend(&latent.mean);
        all.variance.extend(&latent.variance);
    }
    Some(all)
}
