//! The Gaussian-process head: loss and gradients of an episode's features, and predictions from support features.

use super::carried::Carried;
use super::released;
use super::scalars::{Learned, Parametrisation};
use super::settings::{CdktSettings, InferenceName, ObjectiveName};
use crate::error::{Error, Result};
use crate::gp::deep_kernel::{GpHead, Residual, matrix, row_major};
use crate::shared::notice;
use crate::shared::state::State;
use crate::{
    EpisodeRows, Features, GaussianProcess, LatentGaussians, Notice, Prediction, Purpose, TaskRows, select,
};
use faer::Mat;
use siskin_gp::inference::{Inference, NaturalOptions, ReleasedPosterior, Stop, Updates};
use siskin_gp::kernels::Kernel;
use siskin_gp::objective::{Objective, ReleasedEpisode};
use siskin_gp::{Hyper, Resolution, Support};
use siskin_nn::HeadLoss;

/// Images of an episode by which a dead kernel is noticed.
const WATCHED: usize = 24;

/// How CDKT treats features, and the numbers it learns.
#[derive(Clone)]
pub struct CdktHead {
    config: CdktSettings,
    learned: Learned,
    way: usize,
    seed: u64,
    hyper: Hyper,
    carried: Carried,
    /// How far from rest the inference of the latest episode ended.
    residual: Option<f64>,
}

impl CdktHead {
    /// Checks that inference and objective go together.
    pub fn new(config: &CdktSettings, way: usize, seed: u64) -> Result<CdktHead> {
        let learned = Learned { mean: config.learn_prior_mean, tau: config.learn_tau, by: config.scalars };
        let (config, hyper) = (config.clone(), initial_hyper(config, way)?);
        let head =
            CdktHead { config, learned, way, seed, hyper, carried: Carried::default(), residual: None };
        if head.config.objective == ObjectiveName::ReleasedPredictive {
            check_released(head.config.inference)?;
        } else {
            head.objective(&[], way, way)?;
        }
        Ok(head)
    }

    /// The objective of an episode, or why inference and objective do not go together.
    fn objective(&self, support: &[usize], points: usize, way: usize) -> Result<Objective> {
        use {InferenceName as I, ObjectiveName as O};
        let steps = self.config.steps;
        let elbo = |order, kind| Ok(Objective::Elbo { order, kind, steps });
        match (self.config.objective, self.config.inference) {
            (O::Elbo, I::Paper) => elbo(Updates::Paper, Updates::Joint),
            (O::Elbo, I::Joint) => elbo(Updates::Joint, Updates::Joint),
            (O::Elbo, I::Collapsed) => Ok(Objective::Collapsed(Stop::Steps(steps))),
            (O::Direct, I::Collapsed) => Ok(Objective::Direct { steps, resolution: Resolution::Standard }),
            (O::Direct, I::Natural) => Ok(Objective::Natural(NaturalOptions {
                max_steps: steps,
                tolerance: 0.0,
                resolution: Resolution::Fast,
                ..NaturalOptions::default()
            })),
            (O::Predictive, I::Paper | I::Joint | I::Collapsed) => Ok(Objective::Predictive {
                order: order(self.config.inference),
                stop: Stop::Steps(steps),
                support: support.to_vec(),
                resolution: Resolution::Learning,
            }),
            (O::Released, I::Paper) => {
                let (carry, draw) = self.carried.next(self.seed, points, way);
                Ok(Objective::Released { carry, draw, steps })
            }
            (objective, inference) => Err(Error::Settings(format!(
                "cdkt.objective = {objective:?} does not go with cdkt.inference = {inference:?}. These do: elbo with \
                 paper, joint or collapsed; direct with collapsed or natural; predictive with paper, joint or collapsed; \
                 released and released-predictive with paper. (Inference released is for cdkt.test_inference alone.)"
            ))),
        }
    }

    /// Objective and points of an episode, for programs that time their parts. [`ObjectiveName::ReleasedPredictive`] has none of this form.
    pub(super) fn parts(
        &self,
        features: &Features,
        episode: &EpisodeRows<'_>,
    ) -> Result<(Objective, Support)> {
        let objective = self.objective(episode.support, features.rows, episode.way)?;
        Ok((objective, Support::new(matrix(features), episode.labels, self.hyper.prior(episode.way))?))
    }

    /// The Gaussian process of test time, or of the choice among models.
    fn process_for(&self, purpose: Purpose) -> GaussianProcess {
        let mean = match purpose {
            Purpose::Selection if self.config.select_as_trained => self.hyper.mean,
            _ => self.config.test_prior_mean.unwrap_or(self.hyper.mean),
        };
        let inference = inference(self.config.test_inference, self.config.test_steps);
        GaussianProcess { hyper: Hyper { mean, ..self.hyper.clone() }, inference }
    }

    /// Minus the released predictive likelihood of all rows, per row.
    fn released_predictive(&mut self, features: &Features, episode: &EpisodeRows<'_>) -> Result<HeadLoss> {
        let support = released::support_rows(episode);
        let (carry, draw) = self.carried.next(self.seed, support.len(), episode.way);
        let shape = [features.rows, self.config.samples];
        let normals = released::normals(self.seed, self.carried.episodes(), shape, episode.way);
        let drawn = ReleasedEpisode {
            support: &support,
            carry: &carry,
            draw: &draw,
            normals: &normals,
            steps: self.config.steps,
        };
        let labelled = Support::new(matrix(features), episode.labels, self.hyper.prior(episode.way))?;
        let (answer, outcome) = released::predictive(&labelled, drawn)?;
        self.carried.advance(Some(outcome.carry));
        self.residual = answer.residual;
        let points = features.rows as f64;
        let dhyper =
            self.learned.pack_gradient(&self.hyper, &answer.hyper).iter().map(|g| -g / points).collect();
        let dfeatures = row_major(&answer.features).iter().map(|d| -d / points).collect();
        Ok(HeadLoss { loss: -answer.value / points, dfeatures, dhyper, accuracy: None })
    }
}

/// The released sweeps are the paper's.
fn check_released(inference: InferenceName) -> Result<()> {
    match inference {
        InferenceName::Paper => Ok(()),
        other => Err(Error::Settings(format!(
            "cdkt.objective = ReleasedPredictive does not go with cdkt.inference = {other:?}; set cdkt.inference = \"paper\""
        ))),
    }
}

impl GpHead for CdktHead {
    fn learned(&self) -> Vec<f64> {
        self.learned.pack(&self.hyper)
    }

    fn put_learned(&mut self, x: &[f64]) {
        self.learned.unpack(&mut self.hyper, x);
    }

    fn named(&self) -> Vec<(String, f64)> {
        self.learned.named(&self.hyper)
    }

    fn tensor(&self) -> &'static str {
        match self.learned.by {
            Parametrisation::Softplus => "hyper",
            Parametrisation::Log => "hyper.log",
        }
    }

    fn bounds(&self) -> Vec<(&'static str, f64, f64)> {
        self.learned.bounds(&self.hyper)
    }

    fn fits_scalars(&self) -> bool {
        true
    }

    /// By the prior correlations of some of the images.
    fn notice(&self, features: &Features) -> Result<Option<Notice>> {
        let rows: Vec<usize> = (0..features.rows).step_by(features.rows.div_ceil(WATCHED).max(1)).collect();
        if rows.len() < 2 {
            return Ok(None);
        }
        let some = select(features, &rows);
        let x = self.hyper.kernel.features(matrix(&some))?;
        let correlation = self.hyper.kernel.correlation(&x, &x)?;
        let n = rows.len();
        let apart: f64 =
            (0..n).flat_map(|j| (0..j).map(move |i| (i, j))).map(|at| correlation[at].abs()).sum();
        Ok(notice::of_correlation(apart / (n * (n - 1) / 2) as f64))
    }

    fn residual(&self) -> Option<Residual> {
        let intended =
            matches!(self.config.objective, ObjectiveName::Released | ObjectiveName::ReleasedPredictive);
        self.residual.map(|value| Residual { value, intended })
    }

    /// Minus the objective of one episode per point.
    fn loss(&mut self, features: &Features, episode: &EpisodeRows<'_>) -> Result<HeadLoss> {
        if self.config.objective == ObjectiveName::ReleasedPredictive {
            return self.released_predictive(features, episode);
        }
        let (objective, labelled) = self.parts(features, episode)?;
        let answer = objective.value_and_gradient(&labelled)?;
        let points = match self.config.objective {
            ObjectiveName::Predictive => episode.query.len(),
            _ => features.rows,
        } as f64;
        let dfeatures = row_major(&answer.features).iter().map(|d| -d / points).collect();
        let dhyper = self.learned.pack_gradient(&self.hyper, &answer.hyper);
        let dhyper = dhyper.iter().map(|g| -g / points).collect();
        self.carried.advance(answer.carry);
        self.residual = answer.residual;
        Ok(HeadLoss { loss: -answer.value / points, dfeatures, dhyper, accuracy: None })
    }

    fn skip(&mut self, episodes: u64) {
        self.carried.skip(episodes);
    }

    fn changed(&self) -> Vec<f64> {
        self.carried.changed()
    }

    /// Where a step has several episodes, each starts from the marginals before the step, and those of the last are kept.
    fn take_over(&mut self, changed: &[f64]) -> Result<()> {
        self.carried.take_over(changed)
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        let &TaskRows { labels, way, .. } = task;
        for (key, slots) in
            [("cdkt.output_scale", self.config.output_scale), ("cdkt.kernel_shape", self.config.kernel_shape)]
        {
            slots.check_way(key, self.way, way)?;
        }
        let GaussianProcess { hyper, inference } = self.process_for(task.purpose);
        let support = Support::new(matrix(task.support.features()?), labels, hyper.prior(way))?;
        let query = support.query(matrix(task.query.features()?))?;
        let latent = match self.config.test_inference {
            InferenceName::Released => {
                let start = released::start(self.seed, task.index, labels.len(), way);
                ReleasedPosterior::new(&support.task()?, &start, self.config.test_steps)?.latent(&query)?
            }
            _ => inference.posterior(&support.task()?)?.latent(&query)?,
        };
        let probabilities = row_major(&latent.probs(Resolution::Standard)?);
        let latent = LatentGaussians {
            mean: row_major(&latent.mean),
            variance: row_major(&latent.var),
            tau: hyper.tau,
        };
        Ok(Prediction { probabilities, way, latent: Some(latent) })
    }

    fn gaussian_process(&self) -> Option<GaussianProcess> {
        // The released prediction is no posterior that could be kept: its query mean is another.
        let released = self.config.test_inference == InferenceName::Released;
        (!released).then(|| self.process_for(Purpose::Test))
    }

    fn save(&self, state: &mut State) {
        self.carried.save(state);
    }

    fn load(&mut self, state: &State) -> Result<()> {
        self.carried = Carried::load(state)?;
        Ok(())
    }
}

/// The numbers training starts from.
fn initial_hyper(config: &CdktSettings, way: usize) -> Result<Hyper> {
    let mut kernel = Kernel::new(config.kernel.clone()).normalised();
    if let Some(shape) = config.initial_kernel_shape {
        kernel = kernel.with_shapes(&[shape])?;
    }
    let kernel =
        kernel.with_scale(config.initial_output_scale)?.scale_per_class(config.output_scale.slots(way));
    let kernel = kernel.shape_per_class(config.kernel_shape.slots(way));
    Ok(Hyper { kernel, mean: config.prior_mean, tau: config.tau })
}

/// The inference of test time.
fn inference(name: InferenceName, steps: usize) -> Inference {
    match name {
        InferenceName::Natural => {
            Inference::Natural(NaturalOptions { max_steps: steps, ..NaturalOptions::default() })
        }
        _ => Inference::MeanField { order: order(name), stop: Stop::Steps(steps) },
    }
}

/// The order of mean-field sweeps. (Natural steps have none, and the released prediction does not ask.)
fn order(name: InferenceName) -> Updates {
    match name {
        InferenceName::Paper => Updates::Paper,
        InferenceName::Joint => Updates::Joint,
        InferenceName::Collapsed | InferenceName::Natural | InferenceName::Released => Updates::Collapsed,
    }
}

/// Probabilities of latent Gaussians with the temperature `tau`.
pub(super) fn probabilities(latent: &LatentGaussians, way: usize, tau: f64) -> Result<Vec<f64>> {
    let rows = latent.mean.len() / way;
    let table = |values: &[f64]| Mat::from_fn(rows, way, |q, c| values[q * way + c]);
    let (mean, var) = (table(&latent.mean), table(&latent.variance));
    let latent = siskin_gp::posterior::Latent::independent(mean, var, tau);
    Ok(row_major(&latent.probs(Resolution::Fast)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::golden::{Golden, assert_close};
    use crate::{Images, Rows};

    #[test]
    fn the_bound_after_two_joint_sweeps_and_its_gradient_are_those_of_pytorch() {
        let golden = Golden::parse(include_str!("../../../tests/golden/cdkt.json"));
        let count = |name: &str| golden.f64(name) as usize;
        let config = CdktSettings {
            objective: ObjectiveName::Elbo,
            inference: InferenceName::Joint,
            steps: count("steps"),
            initial_output_scale: golden.f64("scale"),
            tau: golden.f64("tau"),
            learn_tau: true,
            prior_mean: golden.f64("mean"),
            learn_prior_mean: true,
            ..CdktSettings::default()
        };
        let mut head = CdktHead::new(&config, count("way"), 0).unwrap();
        let (features, labels) = (golden.table("features", count("dim")), golden.usizes("labels"));
        let (support, query) = (golden.usizes("support"), golden.usizes("query"));
        let images = Images::new(&[], [0, 1, 1, 1]).unwrap();
        let episode =
            EpisodeRows { images, labels: &labels, support: &support, query: &query, way: count("way") };
        let found = head.loss(&features, &episode).unwrap();
        assert_close("loss", &[found.loss], &golden.f64s("loss"), 1e-8);
        assert_close("dfeatures", &found.dfeatures, &golden.f64s("dfeatures"), 1e-8);
        assert_close("dlearned", &found.dhyper, &golden.f64s("dlearned"), 1e-8);
    }

    /// Two classes of two-dimensional features, one support row each.
    fn small_task(purpose: Purpose) -> (Rows, Rows, Purpose) {
        let rows = |values: &[f64]| {
            Rows::Features(Features { values: values.to_vec(), rows: values.len() / 2, dim: 2 })
        };
        (rows(&[1.0, 0.1, 0.2, 1.0]), rows(&[0.9, 0.3, 0.3, 0.9, 0.7, 0.7]), purpose)
    }

    fn answer(settings: &CdktSettings, purpose: Purpose) -> Vec<f64> {
        let (support, query, purpose) = small_task(purpose);
        let task = TaskRows { support: &support, labels: &[0, 1], way: 2, query: &query, index: 4, purpose };
        CdktHead::new(settings, 2, 9).unwrap().predict(&task).unwrap().probabilities
    }

    #[test]
    fn models_are_chosen_with_the_mean_of_training_where_the_settings_say_so() {
        for test_inference in [InferenceName::Natural, InferenceName::Released] {
            let far = CdktSettings { test_inference, test_prior_mean: Some(-5.0), ..CdktSettings::default() };
            let as_trained = CdktSettings { select_as_trained: true, ..far.clone() };
            let plain = CdktSettings { test_prior_mean: None, ..far.clone() };
            assert_eq!(answer(&as_trained, Purpose::Selection), answer(&plain, Purpose::Test));
            assert_eq!(answer(&as_trained, Purpose::Test), answer(&far, Purpose::Test));
            assert_eq!(answer(&far, Purpose::Selection), answer(&far, Purpose::Test));
            assert_ne!(answer(&plain, Purpose::Test), answer(&far, Purpose::Test));
        }
    }

    #[test]
    fn the_released_prediction_keeps_no_posterior() {
        let released = CdktSettings { test_inference: InferenceName::Released, ..CdktSettings::default() };
        assert!(CdktHead::new(&released, 2, 0).unwrap().gaussian_process().is_none());
        let wrong = CdktSettings { objective: ObjectiveName::ReleasedPredictive, ..CdktSettings::default() };
        let error = CdktHead::new(&wrong, 2, 0).err().unwrap().to_string();
        assert!(error.contains("does not go with"), "{error}");
    }
}
