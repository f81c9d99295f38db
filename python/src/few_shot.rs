//! A trained network, and the tasks it is adapted to.

use crate::array::{column, table};
use crate::classifier::named;
use crate::image::{Given, Source};
use crate::pool::Pool;
use crate::{file_error, value_error};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use siskin_adapt::{
    Answer, Criterion, DeviceChoice, EMBEDDED, Example, Features, Intake, LabelledImages, Look, Mismatch,
    Model, Rules, TaskClassifier, View, look_every, looks_of,
};
use siskin_data::OnBadImage;
use std::path::PathBuf;
use std::sync::Arc;

/// Images embedded between two looks at Ctrl-C: bounds the memory too.
const CHUNK: usize = 256;

/// A trained network.
#[pyclass(frozen, module = "pysiskin._native")]
pub struct Network {
    model: Arc<Model>,
    pool: Pool,
}

/// The examples a network was adapted to, with posterior and calibration.
#[pyclass(frozen, name = "Task", module = "pysiskin._native")]
pub struct PyTask(Arc<TaskClassifier>);

/// Probabilities [N, C], entropy, latent variance and novelty [N].
type Answers<'py> = (
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
);

/// What makes a network again: a function and its arguments.
type Recipe<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);

/// A set of classes and "none of these" for each image; then what of the rules cannot be honoured.
type Decisions = (Vec<(Vec<usize>, bool)>, Vec<String>);

#[pymethods]
impl Network {
    /// Opens a shipped model by name, an exported file, or a run folder.
    #[staticmethod]
    fn open(py: Python<'_>, name: &str) -> PyResult<Network> {
        noticed(py, Model::open(name).map_err(file_error)?)
    }

    /// The shipped model that suits what some of the images look like. What cannot be read is reported when all are read.
    #[staticmethod]
    fn suiting(py: Python<'_>, images: Vec<Given<'_>>) -> PyResult<Network> {
        let first = Network::of(Model::open(EMBEDDED[0].0).map_err(file_error)?);
        let every = look_every(images.len());
        let some = images.into_iter().step_by(every);
        let some: Vec<Source> = some.filter_map(|image| image.source(&first.model).ok()).collect();
        first.pool.run(py, move || {
            let intake = Intake::default();
            let looks: Vec<Look> = some.iter().filter_map(|source| source.look(&intake)).collect();
            embedded_for(&looks)
        })
    }

    /// The same for the images of a folder.
    #[staticmethod]
    fn suiting_folder(py: Python<'_>, folder: PathBuf) -> PyResult<Network> {
        Pool::default()
            .run(py, move || embedded_for(&looks_of(&folder, &Intake::default()).map_err(file_error)?))
    }

    /// The name or path it was opened by.
    fn origin(&self) -> &str {
        self.model.origin()
    }

    /// The bytes of an exported file of this network.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.model.to_bytes().map_err(value_error)?))
    }

    /// A network from such bytes; `origin` is the path or name it was opened by.
    #[staticmethod]
    fn from_bytes(bytes: &[u8], origin: &str) -> PyResult<Network> {
        Model::from_bytes(bytes, origin).map(Network::of).map_err(value_error)
    }

    /// Pickles as its bytes; an added network as its name, for it must be added where it is read too.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Recipe<'py>> {
        let class = py.get_type::<Network>();
        let origin = self.model.origin();
        match self.model.foreign() {
            Some(_) => Ok((class.getattr("open")?, PyTuple::new(py, [origin])?)),
            None => Ok((class.getattr("from_bytes")?, (self.to_bytes(py)?, origin).into_pyobject(py)?)),
        }
    }

    /// What the model is: name, training and measured quality, as JSON.
    fn card(&self) -> PyResult<String> {
        match (self.model.card(), self.model.foreign()) {
            (Ok(card), _) => serde_json::to_string(card).map_err(value_error),
            (Err(_), Some(spec)) => {
                let about = serde_json::json!({"name": self.model.name(), "foreign": spec});
                Ok(about.to_string())
            }
            (Err(why), None) => Err(value_error(why)),
        }
    }

    /// Features of images, [N, D].
    fn embed<'py>(&self, py: Python<'py>, images: Vec<Given<'py>>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let features = self.features(py, images)?;
        table(py, (features.rows, features.dim), features.values)
    }

    /// Adapts to labelled images: `labels` index `classes`.
    fn adapt(
        &self,
        py: Python<'_>,
        images: Vec<Given<'_>>,
        labels: Vec<usize>,
        classes: Vec<String>,
    ) -> PyResult<PyTask> {
        let sources = self.sources(images, labels.len())?;
        let model = self.model.clone();
        self.pool
            .run(py, move || {
                let intake = Intake::default();
                let examples = sources.into_iter().zip(labels).enumerate().map(|(i, (source, class))| {
                    Ok(Example { name: source.name(i), class, view: source.view(&model, &intake)? })
                });
                let support =
                    LabelledImages::new(classes, examples.collect::<PyResult<_>>()?).map_err(value_error)?;
                adapted(&model, &support, "task")
            })
            .and_then(|(task, mismatch)| warned(py, mismatch, task))
    }

    /// Adapts to a folder of labelled images, as `siskin adapt` does. With `skip`, images that cannot be read are left out, and
    /// told by path and reason.
    fn adapt_folder(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        skip: bool,
    ) -> PyResult<(PyTask, Vec<(String, String)>)> {
        let model = self.model.clone();
        let on_bad = if skip { OnBadImage::Skip } else { OnBadImage::Error };
        self.pool
            .run(py, move || {
                let support =
                    LabelledImages::read(&folder, on_bad, &model, &Intake::default()).map_err(file_error)?;
                let bad = support.bad().iter().map(|file| (file.path.to_string(), file.fault.to_string()));
                let bad = bad.collect();
                adapted(&model, &support, &siskin_adapt::title_of(&folder))
                    .map(|(task, mismatch)| ((task, bad), mismatch))
            })
            .and_then(|(task, mismatch)| warned(py, mismatch, task))
    }

    /// Of each image what is wrong with it, `None` if it can be read.
    fn faults(&self, py: Python<'_>, images: Vec<Given<'_>>) -> PyResult<Vec<Option<String>>> {
        let sources: Vec<PyResult<Source>> =
            images.into_iter().map(|image| image.source(&self.model)).collect();
        let model = self.model.clone();
        let found = self.pool.run(py, move || {
            let intake = Intake::default();
            let view = |source: PyResult<Source>| source?.view(&model, &intake).map(drop);
            Ok(sources.into_iter().map(|source| view(source).err()).collect::<Vec<_>>())
        })?;
        Ok(found.into_iter().map(|error| error.map(|e| e.value(py).to_string())).collect())
    }

    /// The task with more labelled images: `labels` index `classes`, of the task or new.
    fn add(
        &self,
        py: Python<'_>,
        task: &PyTask,
        images: Vec<Given<'_>>,
        labels: Vec<usize>,
        classes: Vec<String>,
    ) -> PyResult<PyTask> {
        let sources = self.sources(images, labels.len())?;
        let (model, task) = (self.model.clone(), task.0.clone());
        // Images in memory are called by their place, after those that are there.
        let first = task.labels().len();
        self.pool
            .run(py, move || {
                let intake = Intake::default();
                let examples = sources.into_iter().zip(labels).enumerate().map(|(i, (source, class))| {
                    Ok(Example { name: source.name(first + i), class, view: source.view(&model, &intake)? })
                });
                let more =
                    LabelledImages::more(classes, examples.collect::<PyResult<_>>()?).map_err(value_error)?;
                let mismatch = model.mismatch(more.examples().iter().map(|e| &e.view.look));
                let changed = task.with_examples(&model, &more, &Arc::default());
                Ok((changed.map(PyTask::of).map_err(value_error)?, mismatch))
            })
            .and_then(|(task, mismatch)| warned(py, mismatch, task))
    }

    /// The task with other images of the same kind beside it, of no class.
    fn beside(&self, py: Python<'_>, task: &PyTask, images: Vec<Given<'_>>) -> PyResult<PyTask> {
        let features = self.features(py, images)?;
        let task = task.0.clone();
        self.pool
            .run(py, move || task.as_ref().clone().with_others(features).map(PyTask::of).map_err(value_error))
    }

    /// The task without a class.
    fn remove(&self, py: Python<'_>, task: &PyTask, class_name: String) -> PyResult<PyTask> {
        let (model, task) = (self.model.clone(), task.0.clone());
        self.pool.run(py, move || {
            let changed = task.without_class(&model, &class_name, &Arc::default());
            changed.map(PyTask::of).map_err(value_error)
        })
    }

    /// The task without an example, by its place.
    fn remove_example(&self, py: Python<'_>, task: &PyTask, place: usize) -> PyResult<PyTask> {
        let (model, task) = (self.model.clone(), task.0.clone());
        self.pool.run(py, move || {
            let changed = task.without_example(&model, place, &Arc::default());
            changed.map(PyTask::of).map_err(value_error)
        })
    }

    /// Places and scores of the images whose labels would tell the most.
    fn suggest(
        &self,
        py: Python<'_>,
        task: &PyTask,
        images: Vec<Given<'_>>,
        count: usize,
        criterion: &str,
    ) -> PyResult<Vec<(usize, f64)>> {
        let by = named("criterion", &Criterion::NAMED, criterion)?;
        task.0.check_model(&self.model).map_err(value_error)?;
        let features = self.features(py, images)?;
        let task = task.0.clone();
        self.pool.run(py, move || {
            let found = task.suggest(&features, count, by).map_err(value_error)?;
            Ok(found.iter().map(|next| (next.index, next.score)).collect())
        })
    }

    /// Probabilities, entropy, latent variance and novelty of images.
    fn predictions<'py>(
        &self,
        py: Python<'py>,
        task: &PyTask,
        images: Vec<Given<'py>>,
    ) -> PyResult<Answers<'py>> {
        let (answers, _) = self.answers(py, task, images, Rules::default())?;
        let shape = (answers.len(), task.0.classes().len());
        let p = answers.iter().flat_map(|a| a.probabilities.iter().copied()).collect();
        Ok((
            table(py, shape, p)?,
            column(py, &answers, |a| a.entropy),
            column(py, &answers, |a| a.latent_variance),
            column(py, &answers, |a| a.novelty),
        ))
    }

    /// What `siskin predict --format jsonl` says of each image, as JSON.
    #[pyo3(signature = (task, images, *, level, abstain, min_probability, explain))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of a Python function")]
    fn named_answers(
        &self,
        py: Python<'_>,
        task: &PyTask,
        images: Vec<Given<'_>>,
        level: f64,
        abstain: Option<f64>,
        min_probability: f64,
        explain: usize,
    ) -> PyResult<Vec<String>> {
        task.0.check_model(&self.model).map_err(value_error)?;
        let rules = Rules { level, abstain: abstain.unwrap_or(0.0), min_probability };
        let thresholds = task.0.thresholds(&rules).map_err(value_error)?;
        let features = self.features(py, images)?;
        let task = task.0.clone();
        self.pool.run(py, move || {
            let named = task.answer_named(&features, &thresholds, explain).map_err(value_error)?;
            named.iter().map(|answer| serde_json::to_string(answer).map_err(value_error)).collect()
        })
    }

    /// Of each image the classes of its conformal set, and whether it is none of them; then what of the rules cannot be
    /// honoured.
    #[pyo3(signature = (task, images, *, level, abstain, min_probability))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of a Python function")]
    fn decisions(
        &self,
        py: Python<'_>,
        task: &PyTask,
        images: Vec<Given<'_>>,
        level: f64,
        abstain: Option<f64>,
        min_probability: f64,
    ) -> PyResult<Decisions> {
        let rules = Rules { level, abstain: abstain.unwrap_or(0.0), min_probability };
        let (answers, notes) = self.answers(py, task, images, rules)?;
        Ok((answers.into_iter().map(|answer| (answer.set, answer.none_of_these)).collect(), notes))
    }
}

impl Network {
    fn of(model: Model) -> Network {
        Network { model: Arc::new(model), pool: Pool::default() }
    }

    /// Images with one label each.
    fn sources(&self, images: Vec<Given<'_>>, labels: usize) -> PyResult<Vec<Source>> {
        if images.len() != labels {
            return Err(value_error(format!("{} images have {labels} labels", images.len())));
        }
        images.into_iter().map(|image| image.source(&self.model)).collect()
    }

    /// The answers, and what of the rules cannot be honoured.
    fn answers(
        &self,
        py: Python<'_>,
        task: &PyTask,
        images: Vec<Given<'_>>,
        rules: Rules,
    ) -> PyResult<(Vec<Answer>, Vec<String>)> {
        task.0.check_model(&self.model).map_err(value_error)?;
        let thresholds = task.0.thresholds(&rules).map_err(value_error)?;
        let notes = thresholds.notes().to_vec();
        let features = self.features(py, images)?;
        let task = task.0.clone();
        let answers = self.pool.run(py, move || task.answer(&features, &thresholds).map_err(value_error))?;
        Ok((answers, notes))
    }

    /// Features of images, read and embedded a chunk at a time.
    fn features(&self, py: Python<'_>, images: Vec<Given<'_>>) -> PyResult<Features> {
        if images.is_empty() {
            return Err(value_error("no image was given"));
        }
        let mut all = Features { values: Vec::new(), rows: 0, dim: 0 };
        let mut looks: Vec<Look> = Vec::new();
        let mut images = images.into_iter();
        loop {
            let chunk = images
                .by_ref()
                .take(CHUNK)
                .map(|image| image.source(&self.model))
                .collect::<PyResult<Vec<_>>>()?;
            if chunk.is_empty() {
                return warned(py, self.model.mismatch(&looks), all);
            }
            let model = self.model.clone();
            let (part, seen) = self.pool.run(py, move || {
                let intake = Intake::default();
                let views = chunk.into_iter().map(|source| source.view(&model, &intake));
                let views = views.collect::<PyResult<Vec<View>>>()?;
                let features = model.embed(&views).map_err(value_error)?;
                Ok((features, views.iter().map(|view| view.look).collect::<Vec<_>>()))
            })?;
            looks.extend(seen);
            all.values.extend(part.values);
            all.rows += part.rows;
            all.dim = part.dim;
        }
    }
}

/// The task, and what is to be said of images of another kind than the model's.
fn adapted(model: &Model, support: &LabelledImages, title: &str) -> PyResult<(PyTask, Option<Mismatch>)> {
    let mismatch = model.mismatch(support.examples().iter().map(|e| &e.view.look));
    Ok((TaskClassifier::adapt(model, support, title).map(PyTask::of).map_err(value_error)?, mismatch))
}

/// `value` after a Python warning, where there is something to warn of.
fn warned<T>(py: Python<'_>, mismatch: Option<Mismatch>, value: T) -> PyResult<T> {
    if let Some(mismatch) = mismatch {
        warn(py, &mismatch.to_string())?;
    }
    Ok(value)
}

/// The shipped model for images that look so.
fn embedded_for(looks: &[Look]) -> PyResult<Network> {
    Model::embedded_for(looks, DeviceChoice::Cpu).map(|(model, _)| Network::of(model)).map_err(file_error)
}

/// A network, with a warning if no checksum says that it is whole.
fn noticed(py: Python<'_>, model: Model) -> PyResult<Network> {
    if let Some(notice) = model.notice() {
        warn(py, &notice)?;
    }
    Ok(Network::of(model))
}

/// A warning of Python's.
pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &std::ffi::CString::new(text)?, 2)
}

#[pymethods]
impl PyTask {
    /// Reads a task file and opens its model, from where it was or from `model`.
    #[staticmethod]
    #[pyo3(signature = (path, model=None))]
    fn load(py: Python<'_>, path: PathBuf, model: Option<&str>) -> PyResult<(Network, PyTask)> {
        let task = TaskClassifier::load(&path).map_err(file_error)?;
        let model = task.open_model(model).map_err(file_error)?;
        Ok((noticed(py, model)?, PyTask::of(task)))
    }

    /// Writes the task file that `siskin predict` reads.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.0.save(&path).map_err(file_error)
    }

    /// Pickles as the bytes of a task file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = py.get_type::<PyTask>().getattr("from_bytes")?;
        Ok((make, (PyBytes::new(py, &self.0.to_bytes().map_err(value_error)?),)))
    }

    /// A task from such bytes.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<PyTask> {
        TaskClassifier::from_bytes(bytes, "of the pickle").map(PyTask::of).map_err(value_error)
    }

    /// Names of the classes.
    fn classes(&self) -> Vec<String> {
        self.0.classes().to_vec()
    }

    /// Names of the examples.
    fn names(&self) -> Vec<String> {
        self.0.names().to_vec()
    }

    /// Whether more labels would change little: that, the gain of a doubling, its upper bound, and a sentence; `None` if it cannot be said.
    fn advice(&self, py: Python<'_>) -> PyResult<Option<(bool, f64, f64, String)>> {
        let task = self.0.clone();
        let found = Pool::default().run(py, move || task.advice().map_err(value_error))?;
        Ok(found.map(|found| (found.enough, found.gain, found.at_most, found.sentence)))
    }

    /// Examples of each class.
    fn counts(&self) -> Vec<usize> {
        let of = |c: usize| self.0.labels().iter().filter(|label| **label == c).count();
        (0..self.0.classes().len()).map(of).collect()
    }

    /// The path or name of the model it was made with.
    fn model(&self) -> Option<String> {
        self.0.model().map(|model| model.origin.clone())
    }

    /// What the probabilities rest on, as a sentence.
    fn calibration(&self) -> String {
        self.0.calibration().sentence()
    }

    /// How many examples were right without their fold, and of how many; `None` if no class has two.
    fn left_out(&self) -> Option<(usize, usize)> {
        self.0.calibration().left_out.as_ref().map(|left_out| (left_out.right, left_out.of))
    }
}

impl PyTask {
    fn of(task: TaskClassifier) -> PyTask {
        PyTask(Arc::new(task))
    }
}
