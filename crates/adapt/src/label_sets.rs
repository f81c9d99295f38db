//! Tasks whose images stand in several classes at once: label sets.

use crate::classifier::ModelRef;
use crate::cost::{FitLimits, Shape};
use crate::error::{Error, Result};
use crate::labelled_images::{LabelledImages, check_title};
use crate::sealed::Kind;
use safetensors::tensor::Metadata;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use siskin_data::source::embeddings::VectorsWithSets;
use siskin_gp::classifier::LabelSetClassifier;
use siskin_methods::{Features, matrix};
use siskin_model::{DeviceChoice, Model, ModelHead, View};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const KIND: Kind =
    Kind { key: "siskin-label-set-task", version: 2, made_by: "siskin adapt FOLDER --label-sets" };

/// A task of label sets takes as much to answer and to hold as one of at most so many times as many classes.
const COST: usize = 4;

/// A classifier of label sets, adapted to labelled images.
#[derive(Debug, Clone)]
pub struct LabelSetTask {
    about: About,
    classifier: LabelSetClassifier,
}

/// All that is no array.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    title: String,
    /// The network whose features it takes; none where it takes vectors.
    model: Option<ModelRef>,
    /// Names of the labels.
    labels: Vec<String>,
    /// How many images have each.
    counts: Vec<usize>,
    examples: usize,
    width: usize,
}

/// What is said of one image.
#[derive(Debug, Clone, PartialEq)]
pub struct SetAnswer {
    /// The most probable set of labels.
    pub set: Vec<String>,
    /// Its probability.
    pub set_probability: f64,
    /// The probability of each label, in the order of the task.
    pub labels: Vec<(String, f64)>,
    /// The probability of each number of labels.
    pub sizes: Vec<(usize, f64)>,
}

/// Whether a file with this header holds a task of label sets.
pub(crate) fn holds(header: &Metadata) -> bool {
    header.metadata().as_ref().is_some_and(|entries| entries.contains_key(KIND.key))
}

fn shape_of(labels: usize, examples: usize) -> Shape {
    Shape { classes: COST * labels, examples }
}

impl SetAnswer {
    /// As JSON, for programs: `set`, `set_probability`, `labels` and `sizes`.
    pub fn to_json(&self) -> Map<String, Value> {
        let labels: Map<String, Value> =
            self.labels.iter().map(|(name, p)| (name.clone(), (*p).into())).collect();
        let sizes: Map<String, Value> =
            self.sizes.iter().map(|(size, p)| (size.to_string(), (*p).into())).collect();
        [
            ("set", self.set.clone().into()),
            ("set_probability", self.set_probability.into()),
            ("labels", labels.into()),
            ("sizes", sizes.into()),
        ]
        .map(|(key, value): (&str, Value)| (key.to_owned(), value))
        .into_iter()
        .collect()
    }
}

/// The images of a support, each once, with the classes it stands in; `None` if no image stands in two.
pub fn label_sets(support: &LabelledImages) -> Option<(Vec<&View>, Vec<Vec<usize>>)> {
    let (mut views, mut sets): (Vec<&View>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for example in support.examples() {
        match views.iter().position(|view| **view == example.view) {
            None => {
                views.push(&example.view);
                sets.push(vec![example.class]);
            }
            Some(place) if !sets[place].contains(&example.class) => sets[place].push(example.class),
            Some(_) => {}
        }
    }
    sets.iter_mut().for_each(|set| set.sort_unstable());
    sets.iter().any(|set| set.len() > 1).then_some((views, sets))
}

impl LabelSetTask {
    /// Adapts `model` to images of which some stand in several classes ([`label_sets`]), until `stop` is set.
    pub fn adapt(
        model: &Model,
        support: &LabelledImages,
        title: &str,
        stop: &Arc<AtomicBool>,
    ) -> Result<LabelSetTask> {
        check_title(title)?;
        let Some((views, sets)) = label_sets(support) else {
            return Err(Error::Support(
                "no image stands in two classes: this is no task of label sets".into(),
            ));
        };
        let features = model.embed_until(views, stop)?;
        let mut classifier = LabelSetClassifier::default();
        classifier.standardise = false;
        classifier.cancelled = stop.clone();
        if let ModelHead::Process(gp) = model.head()? {
            classifier.kernel = Some(gp.hyper.kernel);
        }
        let model =
            ModelRef { name: model.name().into(), hash: model.hash().into(), origin: model.origin().into() };
        let labels = support.classes().to_vec();
        LabelSetTask::fitted(classifier, &features, (&sets, labels), (title, Some(model)))
    }

    /// Fits `classifier` (its settings, its progress, its flag that ends it) to vectors with label sets.
    pub fn fit(classifier: LabelSetClassifier, given: VectorsWithSets, title: &str) -> Result<LabelSetTask> {
        check_title(title)?;
        let VectorsWithSets { dim, vectors, sets, names } = given;
        let values = vectors.iter().map(|&v| f64::from(v)).collect();
        let features = Features { values, rows: sets.len(), dim };
        LabelSetTask::fitted(classifier, &features, (&sets, names), (title, None))
    }

    fn fitted(
        mut classifier: LabelSetClassifier,
        features: &Features,
        (sets, labels): (&[Vec<usize>], Vec<String>),
        (title, model): (&str, Option<ModelRef>),
    ) -> Result<LabelSetTask> {
        classifier.fit(matrix(features), sets, labels.len())?;
        let count = |c: usize| sets.iter().filter(|set| set.contains(&c)).count();
        let about = About {
            title: title.into(),
            model,
            counts: (0..labels.len()).map(count).collect(),
            labels,
            examples: sets.len(),
            width: features.dim,
        };
        Ok(LabelSetTask { about, classifier })
    }

    /// What is said of features of images, by [`Model::embed`].
    pub fn answer(&self, queries: &Features) -> Result<Vec<SetAnswer>> {
        let at = self.classifier.predictions(matrix(queries))?;
        let name = |c: usize| self.about.labels[c].clone();
        let one = |(i, (set, p)): (usize, &(Vec<usize>, f64))| SetAnswer {
            set: set.iter().map(|&c| name(c)).collect(),
            set_probability: *p,
            labels: (0..self.about.labels.len()).map(|c| (name(c), at.labels[(i, c)])).collect(),
            sizes: at.size_values.iter().enumerate().map(|(k, &size)| (size, at.sizes[(i, k)])).collect(),
        };
        Ok(at.sets.iter().enumerate().map(one).collect())
    }

    /// Seconds of one fit on one core, about: from `LabelSetGPC` on made rows of 2 to 10 labels, 12 to 200 rows.
    pub fn fit_seconds(labels: usize, examples: usize) -> f64 {
        let (labels, examples) = (labels as f64, examples as f64);
        1.0 + labels * (0.4 + 0.004 * examples)
    }

    /// Refuses a task that is too large, with what it would cost.
    pub fn check(labels: usize, examples: usize, limits: &FitLimits) -> Result<()> {
        let seconds = LabelSetTask::fit_seconds(labels, examples);
        if seconds > limits.seconds {
            return Err(Error::Support(format!(
                "label sets of {labels} labels from {examples} images would take about {seconds:.0} s of one core; at most {} s \
                 are taken. Give fewer labels or fewer images, or make the task by `siskin adapt FOLDER --label-sets`.",
                limits.seconds
            )));
        }
        shape_of(labels, examples).check(limits)
    }

    /// The shape of a task with one class per image that costs about as much to answer and to hold.
    pub fn shape(&self) -> Shape {
        shape_of(self.about.labels.len(), self.about.examples)
    }

    /// What it is called.
    pub fn title(&self) -> &str {
        &self.about.title
    }

    /// The model whose features it takes; none where it takes vectors.
    pub fn model(&self) -> Option<&ModelRef> {
        self.about.model.as_ref()
    }

    /// Whether it takes vectors, and so has no model.
    pub fn takes_vectors(&self) -> bool {
        self.about.model.is_none()
    }

    /// Length of a vector, or of an image's features.
    pub fn width(&self) -> usize {
        self.about.width
    }

    /// The model it was made with, from where it was then or from `elsewhere`, on some hardware.
    pub fn open_model(&self, elsewhere: Option<&str>, device: DeviceChoice) -> Result<Model> {
        let Some(expected) = &self.about.model else {
            return Err(Error::Support("this classifier takes vectors and has no model".into()));
        };
        expected.open_on(elsewhere, device)
    }

    /// Names of the labels, and how many images have each.
    pub fn labels(&self) -> impl Iterator<Item = (&str, usize)> {
        self.about.labels.iter().map(String::as_str).zip(self.about.counts.iter().copied())
    }

    /// Number of images it was made from.
    pub fn examples(&self) -> usize {
        self.about.examples
    }

    /// The bytes of a task file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        KIND.bytes(&self.about, &self.classifier.to_bytes()?)
    }

    /// Writes the task file: the old file or the new one, never a part.
    pub fn save(&self, path: &Path) -> Result<()> {
        KIND.save(path, &self.about, &self.classifier.to_bytes()?)
    }

    /// Reads a task file; `None` if it holds a task of another kind.
    pub fn load(path: &Path) -> Result<Option<LabelSetTask>> {
        let Some(parts) = KIND.load::<About>(path)? else { return Ok(None) };
        Self::of_parts(parts, path).map(Some)
    }

    /// Such a file from its bytes; `sealed`: whether its checksum must fit.
    pub(crate) fn parse(bytes: &[u8], name: &str, sealed: bool) -> Result<Option<LabelSetTask>> {
        let Some(parts) = KIND.parse::<About>(bytes, name, sealed)? else { return Ok(None) };
        Self::of_parts(parts, Path::new(name)).map(Some)
    }

    fn of_parts((about, bytes): (About, Vec<u8>), path: &Path) -> Result<LabelSetTask> {
        let classifier = LabelSetClassifier::from_bytes(&bytes, path)?;
        let labels = classifier.learned()?.labels;
        if labels != about.labels.len() || labels != about.counts.len() {
            let why = format!("it names {} labels and knows {labels}", about.labels.len());
            return Err(Error::Task { name: path.display().to_string(), why });
        }
        Ok(LabelSetTask { about, classifier })
    }
}
