//! Tasks whose images stand in several classes at once: label sets.

use crate::classifier::ModelRef;
use crate::error::{Error, Result};
use crate::support::{Support, check_title};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use siskin_data::files;
use siskin_gp::classifier::LabelSetClassifier;
use siskin_methods::{Features, matrix};
use siskin_model::{Model, ModelHead, View};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Key of the JSON in the header.
const KEY: &str = "siskin-label-set-task";
/// Raised when the meaning of a stored field changes.
const VERSION: u32 = 1;
/// Most bytes of a task file.
const MOST_BYTES: u64 = 256 << 20;

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
    version: u32,
    title: String,
    model: ModelRef,
    /// Names of the labels.
    labels: Vec<String>,
    /// How many images have each.
    counts: Vec<usize>,
    examples: usize,
    width: usize,
    /// blake3 of this without its checksum, and of the classifier.
    checksum: String,
}

/// What is said of one image.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The images of a support, each once, with the classes it stands in; `None` if no image stands in two.
pub fn label_sets(support: &Support) -> Option<(Vec<&View>, Vec<Vec<usize>>)> {
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
    /// Adapts `model` to images of which some stand in several classes ([`label_sets`]).
    pub fn adapt(model: &Model, support: &Support, title: &str, stop: &AtomicBool) -> Result<LabelSetTask> {
        check_title(title)?;
        let Some((views, sets)) = label_sets(support) else {
            return Err(Error::Support(
                "no image stands in two classes: this is no task of label sets".into(),
            ));
        };
        let features = model.embed_until(views, stop)?;
        let mut classifier = LabelSetClassifier::default();
        classifier.standardise = false;
        if let ModelHead::Process(gp) = model.head()? {
            classifier.kernel = Some(gp.hyper.kernel);
        }
        let labels = support.classes().to_vec();
        classifier.fit(matrix(&features), &sets, labels.len())?;
        let count = |c: usize| sets.iter().filter(|set| set.contains(&c)).count();
        let about = About {
            version: VERSION,
            title: title.into(),
            model: ModelRef {
                name: model.name().into(),
                hash: model.hash().into(),
                origin: model.origin().into(),
            },
            counts: (0..labels.len()).map(count).collect(),
            labels,
            examples: sets.len(),
            width: features.dim,
            checksum: String::new(),
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

    /// The model it was made with, from where it was then or from `elsewhere`.
    pub fn open_model(&self, elsewhere: Option<&str>) -> Result<Model> {
        let expected = &self.about.model;
        let model = Model::open(elsewhere.unwrap_or(&expected.origin))?;
        if model.has_hash(&expected.hash) {
            return Ok(model);
        }
        let short = |hash: &str| hash.chars().take(12).collect();
        Err(Error::OtherModel {
            expected: expected.origin.clone(),
            expected_hash: short(&expected.hash),
            found: model.origin().into(),
            found_hash: short(model.hash()),
        })
    }

    /// Names of the labels, and how many images have each.
    pub fn labels(&self) -> impl Iterator<Item = (&str, usize)> {
        self.about.labels.iter().map(String::as_str).zip(self.about.counts.iter().copied())
    }

    /// Number of images it was made from.
    pub fn examples(&self) -> usize {
        self.about.examples
    }

    /// Writes the task file: the old file or the new one, never a part.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.classifier.to_bytes()?;
        let mut about = self.about.clone();
        about.checksum = checksum(&about, &bytes)?;
        let bad = |why: safetensors::SafeTensorError| Error::Task {
            name: path.display().to_string(),
            why: why.to_string(),
        };
        let view = TensorView::new(Dtype::U8, vec![bytes.len()], &bytes).map_err(bad)?;
        let entries = HashMap::from([(KEY.to_owned(), serde_json::to_string(&about)?)]);
        let file = serialize([("classifier", view)], Some(entries)).map_err(bad)?;
        files::write(path, &file)
            .map_err(|source| siskin_data::Error::io("write the task file", path, source).into())
    }

    /// Reads a task file; `None` if it holds a task of another kind.
    pub fn load(path: &Path) -> Result<Option<LabelSetTask>> {
        let bytes = files::read(path, MOST_BYTES)
            .map_err(|source| siskin_data::Error::io("read the task file", path, source))?;
        LabelSetTask::from_bytes(&bytes, &path.display().to_string())
    }

    fn from_bytes(bytes: &[u8], name: &str) -> Result<Option<LabelSetTask>> {
        let bad = |why: String| Error::Task { name: name.into(), why };
        // What is no safetensors file at all is said by the reader of other tasks.
        let Ok((_, metadata)) = SafeTensors::read_metadata(bytes) else { return Ok(None) };
        let Some(json) = metadata.metadata().as_ref().and_then(|entries| entries.get(KEY)) else {
            return Ok(None);
        };
        let value: serde_json::Value = serde_json::from_str(json)?;
        if value["version"].as_u64() != Some(u64::from(VERSION)) {
            return Err(bad(format!("its format is {}, this program reads {VERSION}", value["version"])));
        }
        let mut about: About = serde_json::from_value(value)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| bad(e.to_string()))?;
        let inner = tensors.tensor("classifier").map_err(|e| bad(e.to_string()))?.data().to_vec();
        let kept = std::mem::take(&mut about.checksum);
        if checksum(&about, &inner)? != kept {
            return Err(bad(
                "it is damaged: the checksum does not fit. Make it again: siskin adapt FOLDER".into()
            ));
        }
        let classifier = LabelSetClassifier::from_bytes(&inner, name)?;
        let labels = classifier.learned()?.labels;
        if labels != about.labels.len() || labels != about.counts.len() {
            return Err(bad(format!("it names {} labels and knows {labels}", about.labels.len())));
        }
        Ok(Some(LabelSetTask { about, classifier }))
    }
}

/// Of a header with an empty checksum and the classifier.
fn checksum(about: &About, classifier: &[u8]) -> Result<String> {
    let about = About { checksum: String::new(), ..about.clone() };
    let json = serde_json::to_vec(&about)?;
    let mut hasher = blake3::Hasher::new();
    for bytes in [json.as_slice(), classifier] {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }
    Ok(hasher.finalize().to_hex().to_string())
}
