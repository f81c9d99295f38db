//! Training and testing, as `siskin train` and `siskin test` do them.

use crate::array::table;
use crate::interrupt::patient;
use crate::value_error;
use numpy::PyArray2;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;
use serde_json::{Value, json};
use siskin_calib::Measures;
use siskin_data::open::SHORTER_SIDE;
use siskin_data::{Cache, OnBadImage, Opener, Silent, SplitName};
use siskin_train::config::Config;
use siskin_train::evaluate::{Watch, pooled};
use siskin_train::protocol;
use siskin_train::report::{Tested, of_training};
use siskin_train::run::Run;
use siskin_train::trainer::{Event, Outcome};
use siskin_train::under_test::{ModelUnderTest, is_model_file};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two calls of a listener for progress alone.
const BETWEEN: Duration = Duration::from_millis(100);

/// Trains by a config file (or, without one, by the defaults) with settings `key=value`, in the folder `out`; `resume` goes on
/// with the run that is there. `on` hears what happens, as JSON. Ctrl-C saves and stops. Returns JSON.
#[pyfunction]
#[pyo3(signature = (config, out, settings, resume, on))]
pub(crate) fn train(
    py: Python<'_>,
    config: Option<PathBuf>,
    out: PathBuf,
    settings: Vec<String>,
    resume: bool,
    on: Option<Py<PyAny>>,
) -> PyResult<String> {
    let stop = Arc::new(AtomicBool::new(false));
    let listener = Arc::new(Listener::new(on, stop.clone()));
    let (heard, flag) = (listener.clone(), stop.clone());
    let work = move || -> PyResult<String> {
        let mut run = with_opener(|opener| match (resume, &config) {
            (true, _) => Run::resume(&out, opener),
            (false, Some(path)) => Run::start(&out, Config::load(path, &settings)?, opener),
            (false, None) => Run::start(&out, Config::parse("", &settings)?, opener),
        })?;
        let length = run.length();
        let outcome = run.train(&flag, &mut |event| heard.hear(event, length)).map_err(value_error)?;
        if outcome == Outcome::Finished {
            let page = of_training(&run).map_err(value_error)?;
            siskin_train::atomic::write(&out.join("report.html"), page.as_bytes()).map_err(value_error)?;
        }
        let best =
            run.trainer().best().map(|b| json!({"accuracy": b.accuracy, "nll": b.nll, "episode": b.episode}));
        let done = json!({
            "episodes": run.trainer().episode(),
            "of": length,
            "finished": outcome == Outcome::Finished,
            "best": best,
        });
        Ok(done.to_string())
    };
    let done = patient(py, &stop, in_threads(work)?)?;
    listener.failed()?;
    Ok(done)
}

/// JSON of a test, probabilities [N, C] and true classes [N] where the episodes have one number of classes.
type Test<'py> = (String, Option<(Bound<'py, PyArray2<f64>>, Vec<usize>)>);

/// Tests the model at `path`, a run folder or a model file. What `siskin test` writes into a run folder is written too.
#[pyfunction]
#[pyo3(signature = (path, data, settings, episodes, on))]
pub(crate) fn test<'py>(
    py: Python<'py>,
    path: PathBuf,
    data: Option<String>,
    settings: Vec<String>,
    episodes: Option<PathBuf>,
    on: Option<Py<PyAny>>,
) -> PyResult<Test<'py>> {
    let stop = Arc::new(AtomicBool::new(false));
    let listener = Arc::new(Listener::new(on, stop.clone()));
    let (heard, flag) = (listener.clone(), stop.clone());
    let work = move || tested(&path, data.as_deref(), &settings, episodes.as_deref(), (&heard, &flag));
    let (report, raw) = patient(py, &stop, in_threads(work)?)?;
    listener.failed()?;
    let raw = match raw {
        Some((p, labels, way)) => Some((table(py, (labels.len(), way), p)?, labels)),
        None => None,
    };
    Ok((report, raw))
}

/// JSON, and probabilities, labels and number of classes.
type Found = (String, Option<(Vec<f64>, Vec<usize>, usize)>);

fn tested(
    path: &Path,
    data: Option<&str>,
    settings: &[String],
    list: Option<&Path>,
    (listener, stop): (&Listener, &AtomicBool),
) -> PyResult<Found> {
    let change = |mut config: Config| {
        if let Some(data) = data {
            config = config.on_data(data);
        }
        config.changed(settings)
    };
    let mut model = with_opener(|opener| ModelUnderTest::open_changed(path, change, opener))?;
    if let Some(list) = list {
        model.ask(list).map_err(value_error)?;
    }
    let (groups, total) = (model.config.test.groups, model.config.test.groups * model.config.test.episodes);
    let done = Mutex::new(0);
    let answered = || {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        *done += 1;
        listener.tell(*done == total, &json!({"kind": "step", "episode": *done, "of": total}));
    };
    let watch = Watch { stop, answered: &answered };
    let answers = protocol::answers_watched(&model, SplitName::Test, groups, &watch).map_err(value_error)?;
    let report = protocol::report(&model, &answers).map_err(value_error)?;
    if !is_model_file(path) {
        let page = Tested {
            model: &model,
            folder: Some(path),
            report: &report,
            answers: &answers,
            calibrated: None,
        };
        page.write(path).map_err(value_error)?;
    }
    let mut said = json!({"protocol": report.protocol(), "report": report});
    let way = report.episode.way;
    if way.min() < way.max() {
        return Ok((said.to_string(), None));
    }
    let raw = pooled(&answers).map_err(value_error)?;
    said["measures"] = serde_json::to_value(Measures::of(&raw).map_err(value_error)?).map_err(value_error)?;
    let p = raw.probabilities().as_slice().to_vec();
    Ok((said.to_string(), Some((p, raw.labels().to_vec(), raw.classes()))))
}

/// Calls `work` with an opener of the usual cache.
fn with_opener<T>(work: impl FnOnce(&Opener<'_>) -> Result<T, siskin_train::Error>) -> PyResult<T> {
    let folder = std::env::var_os("SISKIN_CACHE").map(PathBuf::from).or_else(Cache::default_folder);
    let folder =
        folder.ok_or_else(|| value_error("this system names no folder for caches: set SISKIN_CACHE"))?;
    let cache = Cache::new(folder);
    let opener = Opener {
        cache: &cache,
        on_bad: OnBadImage::Error,
        shorter_side: Some(SHORTER_SIDE),
        progress: &Silent,
    };
    work(&opener).map_err(value_error)
}

/// The same work in threads of its own: those of a parent process do not survive a fork.
fn in_threads<T: Send + 'static>(
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<impl FnOnce() -> PyResult<T> + Send + 'static> {
    let threads = ThreadPoolBuilder::new()
        .build()
        .map_err(|e| PyRuntimeError::new_err(format!("threads cannot be started: {e}")))?;
    Ok(move || threads.install(work))
}

/// A Python function that hears of progress. Where it fails, the work is stopped.
struct Listener {
    on: Option<Py<PyAny>>,
    stop: Arc<AtomicBool>,
    told: Mutex<Option<Instant>>,
    error: Mutex<Option<PyErr>>,
}

impl Listener {
    fn new(on: Option<Py<PyAny>>, stop: Arc<AtomicBool>) -> Listener {
        Listener { on, stop, told: Mutex::new(None), error: Mutex::new(None) }
    }

    fn hear(&self, event: &Event, of: u64) {
        let (important, said): (bool, Value) = match event {
            Event::Phase { name, .. } => (true, json!({"kind": "phase", "name": name})),
            Event::Step { episode, report } => {
                (*episode == of, json!({"kind": "step", "episode": episode, "of": of, "loss": report.loss}))
            }
            Event::Validated { episode, accuracy, nll, best } => (
                true,
                json!({"kind": "validation", "episode": episode, "accuracy": accuracy, "nll": nll, "best": best}),
            ),
            Event::Notice { episode, text } => {
                (true, json!({"kind": "notice", "episode": episode, "text": text.to_string()}))
            }
            Event::Fitted { scalars, .. } => (true, json!({"kind": "fitted", "scalars": scalars})),
        };
        self.tell(important, &said);
    }

    /// Calls the function, at once for what is important, else at most every tenth of a second.
    fn tell(&self, important: bool, said: &Value) {
        let Some(on) = &self.on else { return };
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if !important && told.is_some_and(|last| last.elapsed() < BETWEEN) {
                return;
            }
            *told = Some(Instant::now());
        }
        if let Err(error) = Python::attach(|py| on.call1(py, (said.to_string(),))) {
            self.stop.store(true, Ordering::Relaxed);
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// The error of the function, if it had one.
    fn failed(&self) -> PyResult<()> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
