//! The task classifier: classes, labelled examples as features, the posterior given them, and its calibration.

use crate::answer::{Answer, NamedAnswer, Neighbour, answers};
use crate::balance::{Balance, COLUMNS, FEATURES, UNMEASURED};
use crate::calibration::TaskCalibration;
use crate::cost::Shape;
use crate::error::{Error, Result};
use crate::fitted::Fitted;
use crate::held_out::held_out;
use crate::labelled_images::{LabelledImages, check, check_title};
use crate::none_of_these::others::Others;
use crate::rules::{Rules, Thresholds};
use crate::shift::unlike;
use serde::{Deserialize, Serialize};
use siskin_data::Embeddings;
use siskin_gp::classifier::GpClassifier;
use siskin_methods::gp::from_examples::FromExamples;
use siskin_methods::{Features, GaussianProcess};
use siskin_model::foreign::Registry;
use siskin_model::{Card, DeviceChoice, Model, ModelHead};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The model a task was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRef {
    /// Its name.
    pub name: String,
    /// Hash of its weights, hyperparameters and config.
    pub hash: String,
    /// The path or name it was opened by.
    pub origin: String,
}

impl ModelRef {
    /// Opens it where it was, or elsewhere, on some hardware.
    pub(crate) fn open_on(&self, elsewhere: Option<&str>, device: DeviceChoice) -> Result<Model> {
        let found = Model::open_on(elsewhere.unwrap_or(&self.origin), device);
        if elsewhere.is_none() && !found.as_ref().is_ok_and(|model| model.has_hash(&self.hash)) {
            // An added network may have another name by now.
            let named = Registry::default_folder().and_then(|registry| registry.name_of(&self.hash));
            if let Some(name) = named {
                return Ok(Model::open_on(&name, device)?);
            }
        }
        let model = found?;
        self.check(&model)?;
        Ok(model)
    }

    /// Refuses another model.
    fn check(&self, model: &Model) -> Result<()> {
        if model.has_hash(&self.hash) {
            return Ok(());
        }
        let short = |hash: &str| hash.chars().take(12).collect();
        Err(Error::OtherModel {
            expected: self.origin.clone(),
            expected_hash: short(&self.hash),
            found: model.origin().into(),
            found_hash: short(model.hash()),
            hint: match model.foreign() {
                Some(_) => {
                    " An added network is the same one where its file and the options of `siskin model add` (preset, output, size) are."
                }
                None => "",
            },
        })
    }
}

/// Features of labelled images.
#[derive(Debug, Clone)]
pub struct Examples {
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Names of the examples.
    pub names: Vec<String>,
    /// Their classes.
    pub labels: Vec<usize>,
    /// Their features, by [`Model::embed`].
    pub features: Features,
    /// Whether they look like another kind of image than the model was trained on, by [`Model::mismatch`].
    pub other_kind: bool,
    /// Features of other images of the same kind, for [`TaskClassifier::with_others`].
    pub others: Option<Features>,
}

/// A classifier adapted to labelled examples.
#[derive(Debug, Clone)]
pub struct TaskClassifier {
    pub(crate) title: String,
    pub(crate) model: Option<ModelRef>,
    pub(crate) classes: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) labels: Vec<usize>,
    /// Features of the examples; for vectors the vectors themselves.
    pub(crate) features: Features,
    pub(crate) fitted: Fitted,
    pub(crate) calibration: TaskCalibration,
    /// Other images of the same kind, where they were given.
    pub(crate) others: Option<Others>,
}

impl TaskClassifier {
    /// Adapts `model` to labelled images. `title`: what to call the task.
    pub fn adapt(model: &Model, support: &LabelledImages, title: &str) -> Result<TaskClassifier> {
        TaskClassifier::adapt_until(model, support, title, &Arc::default())
    }

    /// [`TaskClassifier::adapt`] that ends with [`Error::Stopped`] soon after somebody sets `stop`.
    pub fn adapt_until(
        model: &Model,
        support: &LabelledImages,
        title: &str,
        stop: &Arc<AtomicBool>,
    ) -> Result<TaskClassifier> {
        let features = model.embed_until(support.examples().iter().map(|e| &e.view), stop)?;
        TaskClassifier::adapt_features(model, support.examples_as(features, model), title, stop)
    }

    /// Adapts `model` to features of labelled images, by [`Model::embed`].
    pub fn adapt_features(
        model: &Model,
        examples: Examples,
        title: &str,
        stop: &Arc<AtomicBool>,
    ) -> Result<TaskClassifier> {
        check_title(title)?;
        let Examples { classes, names, labels, features, other_kind, others } = examples;
        check(&classes, &labels)?;
        let way = classes.len();
        let fitted = match model.head()? {
            ModelHead::Process(gp) => {
                let power = model.card().ok().and_then(|card| card.balance).unwrap_or(UNMEASURED);
                fit_process((&gp, power), &features, (&labels, way), stop)?
            }
            ModelHead::FromExamples => {
                fit_examples((FromExamples::classifier(), FEATURES), &features, (&labels, way), stop)?
            }
        };
        let card = model.card().ok();
        let unlike = card.is_some_and(|card| unlike(card, &features, &labels));
        let calibration = calibrated(&fitted, (&labels, way), (card, other_kind, unlike), stop)?;
        let made_with =
            ModelRef { name: model.name().into(), hash: model.hash().into(), origin: model.origin().into() };
        let (title, model) = (title.into(), Some(made_with));
        let task = TaskClassifier {
            title,
            model,
            classes,
            names,
            labels,
            features,
            fitted,
            calibration,
            others: None,
        };
        match others {
            Some(others) => task.with_others(others),
            None => Ok(task),
        }
    }

    /// Learns a classifier on labelled vectors: kernel and temperature by held-out prediction, no network. Vectors
    /// that all have the length 1 are taken as features of an added network are; of others every column is standardised. Classes
    /// without a vector are left out.
    pub fn adapt_vectors(vectors: &Embeddings) -> Result<TaskClassifier> {
        let used: Vec<_> = vectors.classes.iter().filter(|c| !c.images.is_empty()).collect();
        let classes: Vec<String> = used.iter().map(|c| c.name.clone()).collect();
        let labels: Vec<usize> =
            used.iter().enumerate().flat_map(|(c, class)| class.images.clone().map(move |_| c)).collect();
        check(&classes, &labels)?;
        let names = (0..vectors.len()).map(|i| format!("row {}", vectors.source_row(i))).collect();
        let values = (0..vectors.len()).flat_map(|i| vectors.vector(i)).map(|&v| f64::from(v)).collect();
        let features = Features { values, rows: vectors.len(), dim: vectors.dim() };
        let way = classes.len();
        let settings = match all_unit(&features) {
            true => (FromExamples::classifier(), FEATURES),
            false => (GpClassifier::default(), COLUMNS),
        };
        let fitted = fit_examples(settings, &features, (&labels, way), &Arc::default())?;
        let calibration = calibrated(&fitted, (&labels, way), (None, false, false), &AtomicBool::new(false))?;
        let title = vectors.name.clone();
        let (model, others) = (None, None);
        Ok(TaskClassifier { title, model, classes, names, labels, features, fitted, calibration, others })
    }

    /// The thresholds of `rules` for this task.
    pub fn thresholds(&self, rules: &Rules) -> Result<Thresholds> {
        Thresholds::new(rules, &self.calibration)
    }

    /// What is said of features (of images, by [`Model::embed`]) or vectors, row by row.
    pub fn answer(&self, queries: &Features, thresholds: &Thresholds) -> Result<Vec<Answer>> {
        self.check_width(queries)?;
        let mut raw = self.fitted.predict(queries)?;
        if let Some(others) = &self.others {
            others.complete(&mut raw, queries);
        }
        answers(&raw, self.classes.len(), &self.calibration, thresholds)
    }

    /// [`TaskClassifier::answer`] with class names, and the `explain` nearest examples of each query.
    pub fn answer_named(
        &self,
        queries: &Features,
        thresholds: &Thresholds,
        explain: usize,
    ) -> Result<Vec<NamedAnswer>> {
        let answers = self.answer(queries, thresholds)?;
        let nearest = match explain {
            0 => vec![Vec::new(); answers.len()],
            count => self.nearest(queries, count)?,
        };
        let named = answers.iter().zip(nearest);
        let found = thresholds.strangers_found();
        Ok(named.map(|(answer, near)| NamedAnswer::new(&self.classes, answer, found, near)).collect())
    }

    /// The `count` examples with the largest kernel values to each query, the nearest first.
    fn nearest(&self, queries: &Features, count: usize) -> Result<Vec<Vec<Neighbour>>> {
        let kernel = self.fitted.similarity(queries)?;
        let of_query = |q: usize| {
            let mut rows: Vec<usize> = (0..self.labels.len()).collect();
            rows.sort_by(|&a, &b| kernel[(b, q)].total_cmp(&kernel[(a, q)]).then(a.cmp(&b)));
            let near = |&index: &usize| Neighbour {
                example: self.names[index].clone(),
                index,
                class: self.classes[self.labels[index]].clone(),
                kernel: kernel[(index, q)],
            };
            rows.iter().take(count).map(near).collect()
        };
        Ok((0..queries.rows).map(of_query).collect())
    }

    pub(crate) fn check_width(&self, queries: &Features) -> Result<()> {
        match queries.dim == self.features.dim {
            true => Ok(()),
            false => Err(Error::Support(format!(
                "the queries have {} features, the examples of this task {}",
                queries.dim, self.features.dim
            ))),
        }
    }

    /// The model the task was made with, from where it was then or from `elsewhere`.
    pub fn open_model(&self, elsewhere: Option<&str>) -> Result<Model> {
        self.open_model_on(elsewhere, DeviceChoice::Cpu)
    }

    /// The same on other hardware.
    pub fn open_model_on(&self, elsewhere: Option<&str>, device: DeviceChoice) -> Result<Model> {
        self.made_with()?.open_on(elsewhere, device)
    }

    fn made_with(&self) -> Result<&ModelRef> {
        self.model.as_ref().ok_or_else(|| {
            Error::Support("this task was made from vectors: it takes vectors, and no model".into())
        })
    }

    /// Refuses a model other than the one the task was made with.
    pub fn check_model(&self, model: &Model) -> Result<()> {
        self.made_with()?.check(model)
    }

    /// What it is called.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The model it was made with; `None` for a task made from vectors.
    pub fn model(&self) -> Option<&ModelRef> {
        self.model.as_ref()
    }

    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Names of the examples.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Class of each example.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// How its probabilities are calibrated.
    pub fn calibration(&self) -> &TaskCalibration {
        &self.calibration
    }

    /// How many classes and examples.
    pub fn shape(&self) -> Shape {
        Shape { classes: self.classes.len(), examples: self.labels.len() }
    }

    /// Length of a feature vector.
    pub fn width(&self) -> usize {
        self.features.dim
    }
}

/// The head that was trained with the backbone, and the power of its [`Balance`]. `labels`: of the examples, and how many classes
/// there are.
fn fit_process(
    (gp, power): (&GaussianProcess, f64),
    features: &Features,
    (labels, way): (&[usize], usize),
    stop: &AtomicBool,
) -> Result<Fitted> {
    let scales = gp.hyper.kernel.raw_scale.len();
    if scales != 1 && scales != way {
        return Err(Error::Support(format!(
            "{way} classes were given, but this model has one output scale for each of {scales} classes. Train with \
             cdkt.output_scale = \"shared\" for any number of classes."
        )));
    }
    Fitted::fit_network(features, (labels, way), (gp, power), stop)
}

/// A head learned from the examples alone, by held-out prediction, and the power of its [`Balance`]. `labels`: as in [`fit_process`].
fn fit_examples(
    (settings, power): (GpClassifier, f64),
    features: &Features,
    (labels, way): (&[usize], usize),
    stop: &Arc<AtomicBool>,
) -> Result<Fitted> {
    let mut classifier = settings;
    classifier.cancelled = stop.clone();
    // A task asks each example how it looks without its fold: that needs all of them.
    classifier.inducing = Some(0);
    let balance = Balance::new(labels, way, power);
    let x = siskin_methods::matrix(features);
    match balance.weights(labels) {
        Some(weights) => classifier.fit_weighted(x, labels, &weights)?,
        None => classifier.fit(x, labels)?,
    }
    // It outlives the one who could stop it.
    classifier.cancelled = Arc::default();
    Fitted::of_vectors(classifier, features, labels, balance)
}

/// What is known of how sure it may be, from the model's `card` and whether the examples are of `other_kind`, or `unlike` its images.
fn calibrated(
    fitted: &Fitted,
    (labels, way): (&[usize], usize),
    (card, other_kind, unlike): (Option<&Card>, bool, bool),
    stop: &AtomicBool,
) -> Result<TaskCalibration> {
    let held = held_out(fitted, labels, way, stop)?;
    let shape = (way, labels.len() as f64 / way as f64);
    TaskCalibration::new(held.as_ref(), card, shape, (other_kind, unlike))
}

/// Whether every row has the length 1, as far as 32-bit floats can tell.
fn all_unit(features: &Features) -> bool {
    let mut rows = features.values.chunks_exact(features.dim.max(1));
    rows.all(|row| (row.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-4)
}
