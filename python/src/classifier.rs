//! The Gaussian-process classifier on vectors.

use crate::array::matrix;
use crate::interrupt::{interruptible, watched};
use crate::pool::VECTORS;
use crate::value_error;
use faer::Mat;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use siskin_gp::active::Criterion;
use siskin_gp::classifier::{
    EvidenceBound, GpClassifier, KernelByName, Likelihood, Predictions, Progress, at_median_distance,
};
use siskin_gp::kernels::{AnyForm, Kernel};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Points predicted between two looks at Ctrl-C: bounds the memory too. With inducing points more fit in.
const CHUNK: usize = 1024;
const LARGE_CHUNK: usize = 16_384;

/// A fitted classifier.
#[pyclass(frozen, module = "pysiskin._native")]
pub struct Classifier(Arc<GpClassifier>);

/// Probabilities, latent mean, latent variance, all [M, C], and entropy [M].
type Moments<'py> = (
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<f64>>,
);

#[pymethods]
impl Classifier {
    /// Learns from `x` [N, D] and labels `y` in 0..C; `weights`: how often each row counts.
    #[staticmethod]
    fn fit(
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f64>,
        y: Vec<usize>,
        weights: Option<Vec<f64>>,
        settings: Settings,
        verbose: bool,
    ) -> PyResult<Classifier> {
        let x = matrix(&x);
        let mut model = settings.classifier()?;
        known_kernel(settings.kernel.as_deref())?;
        let kernel = settings.kernel();
        let (cancelled, progress) = (model.cancelled.clone(), model.progress.clone());
        let threads = VECTORS.threads()?;
        let work = move || {
            let fit = || model.fit_named(&kernel, x.as_ref(), &y, weights.as_deref());
            threads.install(fit).map_err(value_error)?;
            Ok(Classifier(Arc::new(model)))
        };
        watched(py, &cancelled, bar(progress, verbose), work)
    }

    /// Probabilities, latent mean and variance, entropy at `x` [M, D]; `prior`: the shares of the classes there, if they are not those of
    /// the training rows.
    fn predictions<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'py, f64>,
        prior: Option<Vec<f64>>,
    ) -> PyResult<Moments<'py>> {
        let (x, rows) = (matrix(&x), x.shape()[0]);
        let (mut parts, threads) = (Vec::new(), VECTORS.threads()?);
        let chunk = match self.0.learned().map_err(value_error)?.inducing {
            0 => CHUNK,
            _ => LARGE_CHUNK,
        };
        for start in (0..rows).step_by(chunk) {
            let part = x.subrows(start, chunk.min(rows - start)).to_owned();
            let (model, threads) = (self.0.clone(), threads.clone());
            let prior = prior.clone();
            let work = move || {
                let predict = || match &prior {
                    Some(prior) => model.predictions_under(part.as_ref(), prior),
                    None => model.predictions(part.as_ref()),
                };
                threads.install(predict).map_err(value_error)
            };
            parts.push(interruptible(py, &AtomicBool::default(), work)?);
        }
        let array = |of: fn(&Predictions) -> &Mat<f64>| array(py, parts.iter().map(of));
        let entropy: Vec<f64> = parts.iter().flat_map(|part| part.entropy.iter().copied()).collect();
        Ok((array(|p| &p.probs)?, array(|p| &p.mean)?, array(|p| &p.var)?, entropy.into_pyarray(py)))
    }

    /// For each row of `x` [M, D] the classes, by index, of a set that holds the true one with chance `level`; with `by_class` for the rows
    /// of each class.
    fn sets(
        &self,
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f64>,
        level: f64,
        by_class: bool,
    ) -> PyResult<Vec<Vec<usize>>> {
        let (x, model) = (matrix(&x), self.0.clone());
        VECTORS.run(py, move || {
            match by_class {
                true => model.predict_set_by_class(x.as_ref(), level),
                false => model.predict_set(x.as_ref(), level),
            }
            .map_err(value_error)
        })
    }

    /// Rows of `pool` [M, D] to label next, the most telling first, with their scores.
    fn suggest(
        &self,
        py: Python<'_>,
        pool: PyReadonlyArray2<'_, f64>,
        count: usize,
        criterion: &str,
    ) -> PyResult<Vec<(usize, f64)>> {
        let by = named("criterion", &Criterion::NAMED, criterion)?;
        let (pool, model) = (matrix(&pool), self.0.clone());
        let found = VECTORS.run(py, move || model.suggest(pool.as_ref(), count, by).map_err(value_error))?;
        Ok(found.iter().map(|s| (s.row, s.score)).collect())
    }

    /// Whether more labels would change little: that, the gain of a doubling, its upper bound, and a sentence; None if it cannot be said.
    fn stopping(&self, py: Python<'_>) -> PyResult<Option<(bool, f64, f64, String)>> {
        let model = self.0.clone();
        let found = VECTORS.run(py, move || model.stopping().map_err(value_error))?;
        Ok(found.map(|found| (found.enough, found.gain, found.at_most, found.sentence())))
    }

    /// Leave-one-out log-loss and accuracy of the training points; None for a likelihood that has none.
    fn leave_one_out(&self) -> PyResult<Option<(f64, f64)>> {
        let found = self.0.leave_one_out().map_err(value_error)?;
        Ok(found.map(|found| (found.log_loss, found.accuracy)))
    }

    /// The learned hyperparameters by name.
    fn learned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let learned = self.0.learned().map_err(value_error)?;
        let dict = PyDict::new(py);
        dict.set_item("tau", learned.tau)?;
        dict.set_item("prior_mean", learned.prior_mean)?;
        dict.set_item("noise", learned.noise)?;
        dict.set_item("bound", learned.bound)?;
        dict.set_item("evaluations", learned.evaluations)?;
        dict.set_item("converged", learned.converged)?;
        dict.set_item("inner_converged", learned.inner_converged)?;
        dict.set_item("posterior_converged", learned.posterior_converged)?;
        dict.set_item("spread", learned.spread)?;
        dict.set_item("held_out", learned.held_out)?;
        dict.set_item("learned_kept", learned.learned_kept)?;
        dict.set_item("inducing", learned.inducing)?;
        dict.set_item("shares", &learned.shares)?;
        let kernel = self.0.fitted_kernel().map_err(value_error)?;
        dict.set_item("kernel", kernel.form.name())?;
        match kernel.shapes()[..] {
            [] => dict.set_item("kernel_shape", None::<f64>)?,
            [one] => dict.set_item("kernel_shape", one)?,
            ref many => dict.set_item("kernel_shape", many)?,
        }
        Ok(dict)
    }

    /// The bytes of a saved classifier.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.to_bytes().map_err(value_error)?))
    }

    /// A classifier from the bytes of a saved one.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Classifier> {
        let classifier = GpClassifier::from_bytes(bytes, "the classifier").map_err(value_error)?;
        if let Some(notice) = classifier.notice() {
            crate::few_shot::warn(py, notice)?;
        }
        Ok(Classifier(Arc::new(classifier)))
    }

    /// Pickles as its bytes.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let make = py.get_type::<Classifier>().getattr("from_bytes")?;
        Ok((make, (self.to_bytes(py)?,)))
    }
}

/// Matrices below each other as one array.
pub(crate) fn array<'a, 'py>(
    py: Python<'py>,
    parts: impl Iterator<Item = &'a Mat<f64>>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let rows = parts.flat_map(|m| (0..m.nrows()).map(move |i| (0..m.ncols()).map(|j| m[(i, j)]).collect()));
    PyArray2::from_vec2(py, &rows.collect::<Vec<Vec<f64>>>()).map_err(value_error)
}

/// The settings of a fit, as Python has them: a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    kernel: Option<String>,
    likelihood: String,
    inference: String,
    standardise: bool,
    prior_mean: f64,
    tau: f64,
    learn: bool,
    learn_points: usize,
    n_inducing: Option<usize>,
    ard: bool,
    class_scales: bool,
    class_lengths: bool,
}

impl Settings {
    fn kernel(&self) -> KernelByName {
        let &Settings { ard, class_scales, class_lengths, .. } = self;
        KernelByName { name: self.kernel.clone(), ard, class_scales, class_lengths }
    }

    /// A classifier with all but its kernel.
    fn classifier(&self) -> PyResult<GpClassifier> {
        let mut model = GpClassifier::default();
        model.likelihood = named("likelihood", &Likelihood::NAMED, &self.likelihood)?;
        model.bound = named("inference", &EvidenceBound::NAMED, &self.inference)?;
        (model.standardise, model.prior_mean, model.tau) = (self.standardise, self.prior_mean, self.tau);
        (model.learn, model.learn_points, model.inducing) = (self.learn, self.learn_points, self.n_inducing);
        Ok(model)
    }
}

/// Refuses the name of a kernel that there is not.
fn known_kernel(name: Option<&str>) -> PyResult<()> {
    match name.filter(|name| *name != "auto" && AnyForm::named(name).is_none()) {
        None => Ok(()),
        Some(name) => {
            let known = format!("None, auto, {}", AnyForm::names().join(", "));
            Err(value_error(format!("kernel = {name:?} is not known; there are: {known}")))
        }
    }
}

/// A kernel by its name, its lengthscales starting at the median distance between the rows; none: the classifier's own.
pub(crate) fn named_kernel(name: Option<&str>, x: &Mat<f64>, y: &[usize]) -> PyResult<Option<Kernel>> {
    known_kernel(name)?;
    name.map(|name| at_median_distance(name, x.as_ref(), y).map_err(value_error)).transpose()
}

/// Writes how far a fit is, for who wants to see it.
pub(crate) fn bar(progress: Arc<Progress>, verbose: bool) -> impl FnMut() {
    let mut told = 0;
    move || {
        let percent = (100.0 * progress.fraction()) as u32;
        if verbose && percent > told {
            told = percent;
            let done = (percent / 5) as usize;
            let bar = format!("[{}{}]", "#".repeat(done), ".".repeat(20 - done));
            eprint!("\rfit {bar} {percent} %{}", if percent == 100 { "\n" } else { "" });
        }
    }
}

/// The value that `name` means.
pub(crate) fn named<T: Copy>(what: &str, table: &[(&str, T)], name: &str) -> PyResult<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
        value_error(format!("{what} = {name:?} is not known; there are: {}", known.join(", ")))
    })
}
