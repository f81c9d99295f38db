//! A network under a Gaussian-process head: what CDKT, DKT, LS-Gibbs and OVE share.
//!
//! The network makes features, the head turns the features of an episode into a loss with its gradients; Adam moves the
//! network and the head's own numbers (output scale, prior mean, ...).

mod feature_norm;
mod fit;
#[cfg(test)]
pub(crate) mod golden;
mod rows;
mod sampled;

pub(crate) use feature_norm::FeatureNorm;
pub(crate) use feature_norm::NORM_EPS;
pub(crate) use rows::named_scales;
pub use rows::{matrix, row_major};
pub(crate) use sampled::Sampling;
pub use sampled::{SampledHead, SampledObjective, SampledProbabilities};

use crate::error::{Error, Result};
use crate::shared::adam::ScalarAdam;
use crate::shared::notice;
use crate::shared::state::State;
use crate::{
    EpisodeRows, FeatureEpisode, Features, GaussianProcess, Images, Method, Notice, Place, Prediction, Rates,
    Rows, ScalarFit, Setup, Share, StepReport, TaskRows,
};
use serde::{Deserialize, Serialize};
use siskin_nn::{HeadLoss, Network, Step, StepPart};

/// Whether the classes share a hyperparameter: an output scale, a kernel's shapes, a prior mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slots {
    /// One for all classes: works for any number of classes at test.
    Shared,
    /// One per class slot, as the published codes of CDKT and DKT have it. Test with as many classes as trained.
    PerClass,
}

impl Slots {
    /// How many there are in training with `way` classes.
    pub(crate) fn slots(self, way: usize) -> usize {
        match self {
            Slots::Shared => 1,
            Slots::PerClass => way,
        }
    }

    /// Whether a model of `trained` classes can answer for `way`. `key`: where to change it.
    pub(crate) fn check_way(self, key: &str, trained: usize, way: usize) -> Result<()> {
        if self == Slots::Shared || way == trained {
            return Ok(());
        }
        let why = format!(
            "this model has hyperparameters for each of {trained} classes; train with {key} = \"shared\" to use it \
             with any number of classes"
        );
        Err(Error::Way { way, why })
    }
}

/// What comes after the features.
pub trait GpHead: Clone + Send + Sync {
    /// The learned numbers as one vector, where training starts.
    fn learned(&self) -> Vec<f64>;

    /// Puts learned numbers back.
    fn put_learned(&mut self, x: &[f64]);

    /// The name of the learned numbers in a checkpoint: another parametrisation has another name.
    fn tensor(&self) -> &'static str {
        "hyper"
    }

    /// Name, least and largest value of each learned number.
    fn bounds(&self) -> Vec<(&'static str, f64, f64)> {
        vec![("", f64::NEG_INFINITY, f64::INFINITY); self.learned().len()]
    }

    /// Whether all learned numbers are scalars that can be fitted while features stay.
    fn fits_scalars(&self) -> bool {
        false
    }

    /// Whether the kernel is dead on these features.
    fn notice(&self, _features: &Features) -> Result<Option<Notice>> {
        Ok(None)
    }

    /// How far from rest the inference of the latest [`GpHead::loss`] ended, and whether that is part of the method.
    fn residual(&self) -> Option<Residual> {
        None
    }

    /// Adam's rate of learned number `index`.
    fn rate(&self, _index: usize, rates: Rates) -> f64 {
        rates.kernel
    }

    /// Steps after which Adam begins anew, without moments; 0: never.
    fn fresh_adam_every(&self) -> u64 {
        0
    }

    /// Learned numbers worth watching, by name.
    fn named(&self) -> Vec<(String, f64)>;

    /// The loss of a training episode with its gradients.
    ///
    /// What an episode changes besides (running statistics, the place in a random stream, a warm start) changes here, and
    /// is then told by [`GpHead::changed`].
    fn loss(&mut self, features: &Features, episode: &EpisodeRows<'_>) -> Result<HeadLoss>;

    /// Goes on in its random stream as if so many episodes had come before, those of the same step.
    fn skip(&mut self, _episodes: u64) {}

    /// What the episode of the latest [`GpHead::loss`] changed besides.
    fn changed(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Takes over what an episode [`GpHead::changed`]: that of each episode of a step that is taken, in their order.
    fn take_over(&mut self, _changed: &[f64]) -> Result<()> {
        Ok(())
    }

    /// Features of the network as they are at test.
    fn embed(&self, features: Features) -> Result<Features> {
        Ok(features)
    }

    /// See [`Method::predict`].
    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction>;

    /// See [`Method::gaussian_process`].
    fn gaussian_process(&self) -> Option<GaussianProcess> {
        None
    }

    /// Adds what is neither learned by gradients nor part of the config.
    fn save(&self, _state: &mut State) {}

    /// Takes it back.
    fn load(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }
}

/// How far from rest an inference ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// What its last step moved, relative to the largest value.
    pub value: f64,
    /// Whether so few steps are part of the method, as in the released code. Then a large residual is no fault.
    pub intended: bool,
}

/// A network for the features, a Gaussian-process head on them.
pub struct DeepKernel<H> {
    network: Network,
    head: H,
    /// The head's learned numbers as Adam moves them. The head has what it makes of them (an exponential, say), from which
    /// they would not come back to the last bit.
    learned: Vec<f64>,
    adam: ScalarAdam,
    /// What the latest step showed.
    notice: Option<Notice>,
    /// How far from rest its inference ended.
    residual: Option<Residual>,
}

impl<H: GpHead> DeepKernel<H> {
    /// A fresh network under `head`.
    pub fn with_head(mut head: H, setup: Setup) -> Result<DeepKernel<H>> {
        let learned = head.learned();
        head.put_learned(&learned);
        let adam = ScalarAdam::new(learned.len());
        let network = Network::new(setup.architecture, setup.seed, setup.device)?;
        Ok(DeepKernel { network, head, learned, adam, notice: None, residual: None })
    }

    /// Takes over learned numbers, within their bounds, and notices those that reach them.
    fn put(&mut self, mut head: H, mut learned: Vec<f64>) {
        for (x, (name, low, high)) in learned.iter_mut().zip(head.bounds()) {
            if *x <= low || *x >= high {
                *x = x.clamp(low, high);
                self.notice = self.notice.or(Some(Notice::AtBound(name)));
            }
        }
        head.put_learned(&learned);
        (self.head, self.learned) = (head, learned);
    }

    pub(crate) fn head(&self) -> &H {
        &self.head
    }

    /// The head's part of a training episode alone: the loss of these features. Its gradients are computed too.
    pub fn loss(&self, features: &Features, episode: &EpisodeRows<'_>) -> Result<f64> {
        Ok(self.head.clone().loss(features, episode)?.loss)
    }
}

/// The larger of two residuals; one that is no number is the largest.
fn worst(a: Option<Residual>, b: Option<Residual>) -> Option<Residual> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.value <= a.value { a } else { b }),
        (a, b) => a.or(b),
    }
}

impl<H: GpHead> Method for DeepKernel<H> {
    fn shares(&self, episodes: &[EpisodeRows<'_>], place: Place) -> Result<Vec<Share>> {
        let share = |(index, episode): (usize, &EpisodeRows<'_>)| {
            let (mut head, mut step, mut notice) = (self.head.clone(), Step::default(), None);
            head.skip((place.first + index) as u64);
            let outcome = self.network.episode(episode.images, &mut step, |features| {
                notice = head.notice(features)?;
                head.loss(features, episode)
            })?;
            // The accuracy would take an inference of its own, given the support alone.
            let share = Share::of_network(outcome.loss, None, StepPart::Recorded(step));
            let (residual, carried) = (head.residual(), head.changed());
            Ok(Share { numbers: outcome.dhyper, carried, residual, notice, ..share })
        };
        episodes.iter().enumerate().map(share).collect()
    }

    fn take(&mut self, shares: Vec<Share>, rates: Rates) -> Result<StepReport> {
        let mut head = self.head.clone();
        let (mut loss, mut gradient) = (0.0_f64, vec![0.0_f64; self.learned.len()]);
        let share = 1.0 / shares.len() as f64;
        (self.notice, self.residual) = (None, None);
        for episode in &shares {
            self.notice = self.notice.or(episode.notice);
            self.residual = worst(self.residual, episode.residual);
            loss += share * episode.loss;
            gradient.iter_mut().zip(&episode.numbers).for_each(|(sum, g)| *sum += share * g);
            head.take_over(&episode.carried)?;
        }
        let step = self.network.step_of(shares.into_iter().flat_map(|share| share.parts))?;
        let taken = loss.is_finite() && step.non_finite() == 0 && gradient.iter().all(|g| g.is_finite());
        if taken {
            let every = head.fresh_adam_every();
            if every > 0 && self.adam.steps() >= every {
                self.adam = ScalarAdam::new(self.learned.len());
                self.network.forget_moments();
            }
            self.network.apply(step, rates.network);
            let mut learned = self.learned.clone();
            self.adam.step(&mut learned, &gradient, |index| head.rate(index, rates));
            self.put(head, learned);
        }
        let residual = self.residual.map(|residual| residual.value);
        Ok(StepReport { loss, accuracy: None, taken, residual })
    }

    fn embed(&self, images: Images<'_>) -> Result<Rows> {
        Ok(Rows::Features(self.head.embed(self.network.features(images)?)?))
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        self.head.predict(task)
    }

    fn gaussian_process(&self) -> Option<GaussianProcess> {
        self.head.gaussian_process()
    }

    fn scalars(&self) -> Vec<(String, f64)> {
        self.head.named()
    }

    fn notice(&self) -> Option<Notice> {
        let unintended = self.residual.filter(|residual| !residual.intended);
        self.notice.or_else(|| unintended.and_then(|residual| notice::of_residual(residual.value)))
    }

    fn fits_scalars(&self) -> bool {
        self.head.fits_scalars() && !self.learned.is_empty()
    }

    fn fit_scalars(&mut self, episodes: &[FeatureEpisode], iterations: usize) -> Result<Option<ScalarFit>> {
        if !self.fits_scalars() {
            return Ok(None);
        }
        let (learned, fit) = fit::fit(&self.head, &self.learned, episodes, iterations)?;
        self.put(self.head.clone(), learned);
        Ok(Some(fit))
    }

    fn state(&self) -> State {
        let mut state = State::default();
        state.push_f64(self.head.tensor(), &self.learned);
        self.adam.save(&mut state, "hyper.adam");
        self.head.save(&mut state);
        state.push_network(self.network.state());
        state
    }

    fn load_state(&mut self, state: &State) -> Result<()> {
        let (mut head, mut adam) = (self.head.clone(), self.adam.clone());
        let name = head.tensor();
        let x = state.f64s(name)?;
        let expected = self.learned.len();
        if x.len() != expected {
            return Err(Error::State(format!(
                "`{name}` has {} numbers, this model {expected}: kernel, output scale or what is learned differ",
                x.len()
            )));
        }
        head.put_learned(x);
        head.load(state)?;
        adam.load(state, "hyper.adam")?;
        self.network.load_state(state.network()?)?;
        (self.head, self.learned, self.adam) = (head, x.to_vec(), adam);
        Ok(())
    }
}
