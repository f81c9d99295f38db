//! DKT with the cosine kernel (Patacchiola et al. 2020): a deep-kernel Gaussian process that regresses the labels +1 and -1
//! of every class, with batch normalisation after the network, a constant mean and Gaussian noise of variance 0.1.
//!
//! The released code has output scale and mean for each class slot: `output_scale` and `mean` choose. It builds a new Adam at
//! the start of every epoch of 100 episodes: `fresh_adam_every`.

use crate::error::Result;
use crate::gp::deep_kernel::{DeepKernel, FeatureNorm, GpHead, Slots, matrix, named_scales, row_major};
use crate::settings::{Check, Settings};
use crate::shared::state::State;
use crate::{EpisodeRows, Features, Method, Prediction, Rates, Scores, Setup, TaskRows};
use serde::{Deserialize, Serialize};
use siskin_gp::inference::Inference;
use siskin_gp::kernels::{Cosine, Kernel, Linear};
use siskin_gp::objective::Objective;
use siskin_gp::{Prior, Resolution, Support};
use siskin_nn::HeadLoss;

/// The kernel, and whether the features are normalised before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DktKernel {
    /// Batch normalisation of the features, then cosines: the published choice (`bncossim`).
    NormalisedCosine,
    /// Cosines of the features as they are (`cossim`).
    Cosine,
    /// `s v <x, x'>` of the features as they are.
    Linear,
}

/// How the regressions of the classes become class probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DktProbabilities {
    /// The softmax of the predicted means: what the published calibration errors are of. The means lie between -1 and 1, so
    /// these are far from sure before a temperature is tuned.
    Published,
    /// The chance that a class's target, latent value and noise, is the largest of all.
    LargestTarget,
}

/// `[dkt]` of a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DktSettings {
    /// The kernel.
    pub kernel: DktKernel,
    /// One output scale for all classes, or one per class slot, as the published code has it.
    pub output_scale: Slots,
    /// One prior mean for all classes, or one per class slot, as the published code has it.
    pub mean: Slots,
    /// The output scale at the start of training.
    pub initial_output_scale: f64,
    /// Variance of the Gaussian noise on the labels; not learned.
    pub noise: f64,
    /// Class probabilities.
    pub probabilities: DktProbabilities,
    /// Steps after which Adam begins anew, without moments; 0: never. The published code does so every 100 steps.
    pub fresh_adam_every: u64,
}

impl Default for DktSettings {
    fn default() -> Self {
        DktSettings {
            kernel: DktKernel::NormalisedCosine,
            output_scale: Slots::Shared,
            mean: Slots::Shared,
            initial_output_scale: std::f64::consts::LN_2,
            noise: 0.1,
            probabilities: DktProbabilities::Published,
            fresh_adam_every: 0,
        }
    }
}

impl Settings for DktSettings {
    const NAME: &'static str = "dkt";
    const ABOUT: &'static str =
        "label regression by a deep-kernel Gaussian process, cosine kernel (Patacchiola et al. 2020)";
    const PAPER: &'static str = "Section 5, Tables 1 and 2";

    fn check(&self) -> Result<()> {
        Check { method: Self::NAME }
            .positive(&[("initial_output_scale", self.initial_output_scale), ("noise", self.noise)])
            .map(|_| ())
    }

    fn build(&self, setup: Setup) -> Result<Box<dyn Method>> {
        Ok(Box::new(Dkt::new(self, setup)?))
    }
}

/// The method.
pub type Dkt = DeepKernel<DktHead>;

impl Dkt {
    /// A fresh model.
    pub fn new(config: &DktSettings, setup: Setup) -> Result<Dkt> {
        let dim = setup.architecture.dimension(setup.image_size, setup.image_size)?;
        Dkt::with_head(DktHead::new(config, setup.way, dim)?, setup)
    }
}

/// Batch normalisation, kernel, constant mean, one regression for each class.
#[derive(Clone)]
pub struct DktHead {
    pub(crate) config: DktSettings,
    way: usize,
    /// Nothing for the kernels on features as they are.
    pub(crate) norm: Option<FeatureNorm>,
    pub(crate) kernel: Kernel,
    /// One, or one for each class.
    pub(crate) means: Vec<f64>,
    /// Statistics of the latest episode's features.
    batch: Vec<f64>,
}

impl DktHead {
    pub(crate) fn new(config: &DktSettings, way: usize, dim: usize) -> Result<DktHead> {
        let norm = (config.kernel == DktKernel::NormalisedCosine).then(|| FeatureNorm::new(dim));
        let kernel = match config.kernel {
            DktKernel::NormalisedCosine | DktKernel::Cosine => Kernel::new(Cosine),
            DktKernel::Linear => Kernel::new(Linear),
        };
        let slots = config.output_scale.slots(way);
        let kernel =
            kernel.with_scale(config.initial_output_scale)?.scale_per_class(slots).shape_per_class(slots);
        let means = vec![0.0; config.mean.slots(way)];
        Ok(DktHead { config: config.clone(), way, norm, kernel, means, batch: Vec::new() })
    }

    /// Labelled features of `way` classes with the prior of their regressions.
    fn support(&self, features: &Features, labels: &[usize], way: usize) -> Result<Support> {
        let means = if self.means.len() == 1 { vec![self.means[0]; way] } else { self.means.clone() };
        let prior = Prior { kernel: self.kernel.clone(), means, tau: 1.0 };
        Ok(Support::new(matrix(features), labels, prior)?)
    }

    /// Means of the classes' regressions at the queries, [Q, C], and the probabilities that follow from them.
    pub(crate) fn answer(&self, task: &TaskRows<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
        let &TaskRows { labels, way, .. } = task;
        for (key, slots) in [("dkt.output_scale", self.config.output_scale), ("dkt.mean", self.config.mean)] {
            slots.check_way(key, self.way, way)?;
        }
        let support = self.support(task.support.features()?, labels, way)?;
        let regression = Inference::Exact { noise: self.config.noise }.posterior(&support.task()?)?;
        let query = support.query(matrix(task.query.features()?))?;
        let scores = Scores { values: row_major(&regression.latent(&query)?.mean), way };
        let probabilities = match self.config.probabilities {
            DktProbabilities::Published => scores.softmax(),
            DktProbabilities::LargestTarget => row_major(&regression.probs(&query, Resolution::Standard)?),
        };
        Ok((scores.values, probabilities))
    }
}

impl GpHead for DktHead {
    /// The means, raw output scales and shapes, then weight and bias of the normalisation.
    fn learned(&self) -> Vec<f64> {
        let mut x = [self.means.as_slice(), &self.kernel.raw_scale, &self.kernel.raw_shape].concat();
        x.extend(self.norm.iter().flat_map(|norm| norm.weight.iter().chain(&norm.bias)));
        x
    }

    fn put_learned(&mut self, x: &[f64]) {
        let mut rest = x;
        let Kernel { raw_scale, raw_shape, .. } = &mut self.kernel;
        let mut parts = vec![&mut self.means, raw_scale, raw_shape];
        parts.extend(self.norm.iter_mut().flat_map(|norm| [&mut norm.weight, &mut norm.bias]));
        for part in parts {
            let (own, after) = rest.split_at(part.len());
            part.copy_from_slice(own);
            rest = after;
        }
    }

    /// The normalisation learns at the network's pace: it is a layer of the network.
    fn rate(&self, index: usize, rates: Rates) -> f64 {
        let of_process = self.means.len() + self.kernel.raw_scale.len() + self.kernel.raw_shape.len();
        if index < of_process { rates.kernel } else { rates.network.learning_rate }
    }

    fn fresh_adam_every(&self) -> u64 {
        self.config.fresh_adam_every
    }

    fn named(&self) -> Vec<(String, f64)> {
        let mut all = named_scales(&self.kernel);
        match self.means[..] {
            [mean] => all.push(("mean".into(), mean)),
            ref means => all.extend(means.iter().enumerate().map(|(c, m)| (format!("mean_{c}"), *m))),
        }
        all
    }

    /// `-1/C sum_c log N(t^c | mean_c, K_c + noise I) / N` over support and query together.
    fn loss(&mut self, features: &Features, episode: &EpisodeRows<'_>) -> Result<HeadLoss> {
        let (way, noise, labels) = (episode.way, self.config.noise, episode.labels);
        let normalised = self.norm.as_mut().map(|norm| norm.train(features)).transpose()?;
        let seen = normalised.as_ref().map_or(features, |(normal, _)| normal);
        let points = self.support(seen, labels, way)?;
        let answer = Objective::LabelRegression { noise }.value_and_gradient(&points)?;
        let scale = -1.0 / (features.rows as f64 * way as f64);
        let mut dhyper = match self.means.len() {
            1 => vec![answer.hyper.means.iter().sum()],
            _ => answer.hyper.means,
        };
        let kernel = answer.hyper.kernel;
        dhyper.extend(kernel.raw_scale.iter().chain(&kernel.raw_shape));
        dhyper.iter_mut().for_each(|d| *d *= scale);
        let mut dfeatures: Vec<f64> = row_major(&answer.features).iter().map(|d| scale * d).collect();
        if let (Some(norm), Some((_, tape))) = (&self.norm, &normalised) {
            self.batch.clone_from(&tape.batch);
            let back = norm.back(tape, dfeatures);
            dfeatures = back.features;
            dhyper.extend(back.weight);
            dhyper.extend(back.bias);
        }
        Ok(HeadLoss { loss: scale * answer.value, dfeatures, dhyper, accuracy: None })
    }

    fn changed(&self) -> Vec<f64> {
        self.batch.clone()
    }

    fn take_over(&mut self, changed: &[f64]) -> Result<()> {
        self.norm.as_mut().map_or(Ok(()), |norm| norm.absorb(changed))
    }

    fn embed(&self, features: Features) -> Result<Features> {
        match &self.norm {
            Some(norm) => norm.eval(&features),
            None => Ok(features),
        }
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let (_, probabilities) = self.answer(task)?;
        Ok(Prediction { probabilities, way: task.way, latent: None })
    }

    fn save(&self, state: &mut State) {
        if let Some(norm) = &self.norm {
            norm.save(state);
        }
    }

    fn load(&mut self, state: &State) -> Result<()> {
        match &mut self.norm {
            Some(norm) => norm.load(state),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::{Golden, assert_close};
    use crate::{Images, Purpose, Rows, select};
    use siskin_nn::Pace;

    const SUPPORT: [usize; 3] = [0, 4, 8];
    const QUERY: [usize; 9] = [1, 2, 3, 5, 6, 7, 9, 10, 11];

    /// The head and the training episode of the golden file.
    fn golden() -> (Golden, DktHead, Features, Vec<usize>) {
        let golden = Golden::parse(include_str!("../../tests/golden/dkt.json"));
        let (features, labels) = (golden.table("features", 5), golden.usizes("labels"));
        let config = DktSettings { output_scale: Slots::PerClass, ..DktSettings::default() };
        let mut head = DktHead::new(&config, 3, features.dim).unwrap();
        head.put_learned(&golden.f64s("learned"));
        (golden, head, features, labels)
    }

    fn task<'a>(support: &'a Rows, labels: &'a [usize], way: usize, query: &'a Rows) -> TaskRows<'a> {
        TaskRows { support, labels, way, query, index: 0, purpose: Purpose::Test }
    }

    fn rows(features: &Features, rows: &[usize]) -> Rows {
        Rows::Features(select(features, rows))
    }

    #[test]
    fn loss_and_gradients_are_those_of_pytorch() {
        let (golden, mut head, features, labels) = golden();
        let images = Images::new(&[], [0, 1, 1, 1]).unwrap();
        let episode = EpisodeRows { images, labels: &labels, support: &SUPPORT, query: &QUERY, way: 3 };
        let loss = head.loss(&features, &episode).unwrap();
        assert_close("loss", &[loss.loss], &[golden.f64("loss")], 1e-8);
        assert_close("dfeatures", &loss.dfeatures, &golden.f64s("dfeatures"), 1e-8);
        assert_close("dlearned", &loss.dhyper, &golden.f64s("dlearned"), 1e-8);
    }

    #[test]
    fn predictions_after_one_batch_are_those_of_pytorch() {
        let (golden, mut head, features, labels) = golden();
        head.norm.as_mut().unwrap().train(&features).unwrap();
        let all = head.embed(features).unwrap();
        let of = SUPPORT.map(|row| labels[row]);
        let answer = head.predict(&task(&rows(&all, &SUPPORT), &of, 3, &rows(&all, &QUERY))).unwrap();
        assert_close("probabilities", &answer.probabilities, &golden.f64s("probabilities"), 1e-8);
    }

    #[test]
    fn a_model_with_one_scale_for_each_class_says_what_it_cannot_do() {
        let (_, head, features, _) = golden();
        let two = rows(&features, &[0, 4]);
        let error = head.predict(&task(&two, &[0, 1], 2, &two)).unwrap_err().to_string();
        assert!(error.contains("dkt.output_scale = \"shared\""), "{error}");
    }

    #[test]
    fn the_chance_of_the_largest_target_is_surer_than_the_softmax_of_means() {
        let (_, head, features, labels) = golden();
        let mut surer = head.clone();
        surer.config.probabilities = DktProbabilities::LargestTarget;
        let all = Rows::Features(features);
        let task = task(&all, &labels, 3, &all);
        let at = |head: &DktHead| head.predict(&task).unwrap().probabilities;
        let largest = |p: &[f64]| p.iter().copied().fold(0.0, f64::max);
        for (a, b) in at(&head).chunks(3).zip(at(&surer).chunks(3)) {
            assert!((b.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(largest(b) > largest(a), "{a:?} {b:?}");
        }
    }

    fn setup() -> Setup {
        Setup {
            architecture: siskin_nn::Architecture::Conv4S,
            image_size: 28,
            way: 2,
            base_classes: Some(9),
            seed: 5,
            device: siskin_nn::DeviceChoice::Cpu,
        }
    }

    const RATES: Rates = Rates { network: Pace { learning_rate: 1e-3, weight_decay: 0.0 }, kernel: 1e-2 };

    fn pixels() -> Vec<f32> {
        (0..6 * 28 * 28).map(|i| ((i * 31 % 101) as f32 / 50.0) - 1.0).collect()
    }

    /// Two classes of three images of 28 pixels.
    fn episode(pixels: &[f32]) -> EpisodeRows<'_> {
        let images = Images::new(pixels, [6, 1, 28, 28]).unwrap();
        EpisodeRows { images, labels: &[0, 0, 0, 1, 1, 1], support: &[0, 3], query: &[1, 2, 4, 5], way: 2 }
    }

    /// Adam's first step moves every number by its rate, whatever the gradient; later steps do not.
    #[test]
    fn a_fresh_adam_begins_where_the_settings_say_so_and_after_a_resume_too() {
        let pixels = pixels();
        let episode = episode(&pixels);
        let new = |fresh_adam_every: u64| {
            Dkt::new(&DktSettings { fresh_adam_every, ..DktSettings::default() }, setup()).unwrap()
        };
        let steps = |model: &mut Dkt, count: usize| {
            (0..count).for_each(|_| assert!(model.train_step(&[episode], RATES).unwrap().taken));
        };
        let (mut one, mut fresh) = (new(0), new(2));
        steps(&mut one, 2);
        steps(&mut fresh, 2);
        assert_eq!(one.state(), fresh.state());
        let before = fresh.state();
        let mut resumed = new(2);
        resumed.load_state(&before).unwrap();
        [&mut one, &mut fresh, &mut resumed].into_iter().for_each(|model| steps(model, 1));
        assert_eq!(resumed.state(), fresh.state());
        // The raw output scale, after the mean (whose gradient is 0 for two classes of one size).
        let moved =
            |model: &Dkt| (before.f64s("hyper").unwrap()[1] - model.state().f64s("hyper").unwrap()[1]).abs();
        let apart = |model: &Dkt| (moved(model) / RATES.kernel - 1.0).abs();
        assert!(apart(&fresh) < 1e-5 && apart(&one) > 1e-3, "{} {}", moved(&fresh), moved(&one));
        let taken = |model: &Dkt| {
            (model.state().f64s("hyper.adam.steps").unwrap()[0], model.state().network().unwrap().steps)
        };
        assert_eq!((taken(&one), taken(&fresh)), ((3.0, 3), (1.0, 1)));
        steps(&mut fresh, 2);
        assert_eq!(taken(&fresh), (1.0, 1));
    }

    #[test]
    fn a_state_comes_back_and_training_goes_on_to_the_same_bits() {
        let new = || Dkt::new(&DktSettings::default(), setup()).unwrap();
        let pixels = pixels();
        let (episode, rates) = (episode(&pixels), RATES);
        let images = episode.images;
        let mut first = new();
        assert!(first.train_step(&[episode], rates).unwrap().taken);
        let mut second = new();
        assert_ne!(second.state(), first.state());
        second.load_state(&first.state()).unwrap();
        assert_eq!(second.embed(images).unwrap(), first.embed(images).unwrap());
        let two = [episode, episode];
        assert_eq!(first.train_step(&two, rates).unwrap(), second.train_step(&two, rates).unwrap());
        assert_eq!(second.state(), first.state());
    }
}
