//! A head that was not trained: kernel, temperature and spread are learned from the examples of each task alone, for features that somebody
//! else's network has made.

use crate::error::{Error, Result};
use crate::gp::deep_kernel::{matrix, row_major};
use crate::{
    EpisodeRows, Features, Images, Method, Place, Prediction, Rates, Rows, Share, State, StepReport, TaskRows,
};
use siskin_gp::classifier::{Expected, GpClassifier};

/// What is expected of temperature and spread on features of length 1, chosen on base classes of CUB and mini-ImageNet with features of an
/// EfficientNet-Lite0 (docs/photos.md).
const EXPECTED: Expected = Expected { temperature: 0.08, spread: 0.15, deviation: 0.5 };

/// The method. It has nothing to train.
#[derive(Debug, Clone, Copy, Default)]
pub struct FromExamples;

impl FromExamples {
    /// The classifier of a task, to be fitted. Columns are not scaled one by one, for then columns that hardly vary would count as much as
    /// those that tell classes apart.
    pub fn classifier() -> GpClassifier {
        let mut settings = GpClassifier::default();
        settings.standardise = false;
        settings.expected = Some(EXPECTED);
        settings
    }
}

impl Method for FromExamples {
    fn shares(&self, _episodes: &[EpisodeRows<'_>], _place: Place) -> Result<Vec<Share>> {
        Err(not_trained())
    }

    fn take(&mut self, _shares: Vec<Share>, _rates: Rates) -> Result<StepReport> {
        Err(not_trained())
    }

    fn embed(&self, images: Images<'_>) -> Result<Rows> {
        let [rows, c, h, w] = images.shape();
        let values = images.pixels().iter().map(|&v| f64::from(v)).collect();
        Ok(Rows::Features(Features { values, rows, dim: c * h * w }))
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let mut classifier = FromExamples::classifier();
        classifier.fit(matrix(task.support.features()?), task.labels)?;
        let probabilities = row_major(&classifier.predict_proba(matrix(task.query.features()?))?);
        Ok(Prediction { probabilities, way: task.way, latent: None })
    }

    fn state(&self) -> State {
        State::default()
    }

    fn load_state(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }
}

fn not_trained() -> Error {
    Error::Settings("a head that is learned from the examples of each task is not trained".into())
}
