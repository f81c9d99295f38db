//! Few-shot methods, one file each, behind one small trait.

mod adam;
pub mod cdkt;
mod episode;
mod error;
mod state;

pub use episode::{Episode, Latent, Prediction, select};
pub use error::{Error, Result};
pub use siskin_nn::{Features, Images};
pub use state::{State, Tensor, Values};

/// Learning rates of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// For the network.
    pub network: f64,
    /// For kernel parameters, temperature and prior mean.
    pub kernel: f64,
}

/// What one training step did.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// The mean loss of the step's episodes.
    pub loss: f64,
    /// The share of queries that the support alone predicts rightly, before the step.
    pub accuracy: f64,
    /// False where the loss or a gradient was not finite: the step was then not taken.
    pub taken: bool,
}

/// A few-shot classifier that can be trained on episodes and asked for probabilities.
pub trait Method: Send + Sync {
    /// One optimiser step on the mean loss of `episodes`.
    fn train_step(&mut self, episodes: &[Episode<'_>], rates: Rates) -> Result<StepReport>;

    /// Features of images as they are at test: the same image always gives the same row.
    fn embed(&self, images: Images<'_>) -> Result<Features>;

    /// Probabilities of the query rows, given labelled support rows (`labels` in `0..way`).
    fn predict(
        &self,
        support: &Features,
        labels: &[usize],
        way: usize,
        query: &Features,
    ) -> Result<Prediction>;

    /// Learned scalars worth watching, by name, e.g. the output scale.
    fn scalars(&self) -> Vec<(String, f64)>;

    /// Everything that a resumed training needs, exactly.
    fn state(&self) -> State;

    /// Puts a state back. Missing, extra and misshapen tensors are errors.
    fn load_state(&mut self, state: &State) -> Result<()>;
}
