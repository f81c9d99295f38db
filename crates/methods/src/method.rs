//! The trait of all methods.

use crate::error::Result;
use crate::{
    EpisodeRows, FeatureEpisode, Images, Notice, Place, Prediction, Rates, Rows, ScalarFit, Share, State,
    StepReport, TaskRows,
};

/// What a method is trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainsOn {
    /// Episodes with support and query.
    Episodes,
    /// Batches of images of all base classes, in shuffled passes. They come as episodes whose labels count the base
    /// classes (`way` of them) and whose rows are all queries.
    Batches {
        /// Images in a batch.
        size: usize,
    },
}

/// A method that is a Gaussian process on its features, as it is at test.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianProcess {
    /// Kernel, prior mean and temperature.
    pub hyper: siskin_gp::Hyper,
    /// How the posterior of a task is found.
    pub inference: siskin_gp::inference::Inference,
}

/// A few-shot classifier that can be trained on episodes and asked for probabilities. One that learns a network and nothing else is a
/// [`OneNetwork`](crate::OneNetwork).
pub trait Method: Send + Sync {
    /// What [`Method::train_step`] wants.
    fn trains_on(&self) -> TrainsOn {
        TrainsOn::Episodes
    }

    /// What each of these episodes gives to the next optimiser step. `place`: where they are among the episodes of the step.
    fn shares(&self, episodes: &[EpisodeRows<'_>], place: Place) -> Result<Vec<Share>>;

    /// One optimiser step on the mean loss of episodes, by the shares of all of them in their order.
    fn take(&mut self, shares: Vec<Share>, rates: Rates) -> Result<StepReport>;

    /// The shares of a step all of whose episodes are computed here.
    fn all_shares(&self, episodes: &[EpisodeRows<'_>]) -> Result<Vec<Share>> {
        let mut shares = Vec::with_capacity(episodes.len());
        // As many at a time as some methods compute side by side: more would hold the gradients of all.
        for some in episodes.chunks(rayon::current_num_threads()) {
            let place = Place { first: shares.len(), count: episodes.len() };
            self.shares(some, place)?.into_iter().for_each(|share| share.push(&mut shares));
        }
        Ok(shares)
    }

    /// One optimiser step on the mean loss of `episodes`.
    fn train_step(&mut self, episodes: &[EpisodeRows<'_>], rates: Rates) -> Result<StepReport> {
        let shares = self.all_shares(episodes)?;
        self.take(shares, rates)
    }

    /// What [`Method::predict`] needs of images: features as they are at test, or the pixels themselves. The same image
    /// always gives the same row.
    fn embed(&self, images: Images<'_>) -> Result<Rows>;

    /// Probabilities of the query rows of a task, given its labelled support rows.
    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction>;

    /// Where the predictions are those of a Gaussian process with the logistic-softmax likelihood on the features: that
    /// process. Its posterior can then be kept, in place of the support.
    fn gaussian_process(&self) -> Option<GaussianProcess> {
        None
    }

    /// Learned scalars worth watching, by name, e.g. the output scale.
    fn scalars(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// What is wrong with the model after the latest step, if anything is.
    fn notice(&self) -> Option<Notice> {
        None
    }

    /// Whether it has scalars that [`Method::fit_scalars`] can fit.
    fn fits_scalars(&self) -> bool {
        false
    }

    /// Fits the scalars to convergence on episodes of features, the network standing still, in `iterations` steps at most;
    /// none for a method that has no such scalars.
    fn fit_scalars(&mut self, _episodes: &[FeatureEpisode], _iterations: usize) -> Result<Option<ScalarFit>> {
        Ok(None)
    }

    /// What it holds beside the model, in MiB, where adapting to a task takes more than a forward pass: one of the
    /// [`Method::scalars`].
    fn extra_memory_mib(&self) -> Option<f64> {
        self.scalars().into_iter().find(|(name, _)| name == "extra_memory_mib").map(|(_, mib)| mib)
    }

    /// Everything that a resumed training needs, exactly.
    fn state(&self) -> State;

    /// Puts a state back. Missing, extra and misshapen tensors are errors.
    fn load_state(&mut self, state: &State) -> Result<()>;
}
