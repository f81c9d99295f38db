//! The kernel as a choice: forms that are tried, and the one that predicts left-out points best.

use super::GpClassifier;
use super::inputs::{Standardiser, order_of_values, rbf_at_median_distance};
use crate::kernels::{AnyForm, Kernel, inverse_softplus, softplus};
use crate::{Error, Result};
use faer::{Mat, MatRef};

/// Forms that are tried beside the classifier's own, their lengths starting at the median distance.
const FORMS: [&str; 3] = ["linear+constant", "rbf", "rbf+linear"];

impl GpClassifier {
    /// Fits with the classifier's own kernel, with a linear one, RBF, and the sum of both, and keeps the one whose leave-one-out log-loss
    /// ([`GpClassifier::leave_one_out`]) is least; the first of equals. It takes as long as four fits. `weights`: as for
    /// [`GpClassifier::fit_weighted`].
    pub fn fit_choosing(&mut self, x: MatRef<'_, f64>, y: &[usize], weights: Option<&[f64]>) -> Result<()> {
        if !self.searches() {
            return Err(Error::NoChoice);
        }
        let mut best: Option<(f64, GpClassifier)> = None;
        for name in [None].into_iter().chain(FORMS.map(Some)) {
            let mut tried = GpClassifier { kernel: None, fitted: None, ..self.clone() };
            if let Some(name) = name {
                tried.kernel = Some(at_median_distance(name, x, y)?);
            }
            match weights {
                Some(weights) => tried.fit_weighted(x, y, weights)?,
                None => tried.fit(x, y)?,
            }
            let loss = tried.leave_one_out()?.map_or(f64::INFINITY, |found| found.log_loss);
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, tried));
            }
        }
        let none = Error::Empty { what: "kernels", needed: 1 };
        *self = best.ok_or(none)?.1;
        Ok(())
    }
}

/// The kernel as a person names it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KernelByName {
    /// The name of a form, or `auto` for [`GpClassifier::fit_choosing`]; `None` is the classifier's own.
    pub name: Option<String>,
    /// A length for each input.
    pub ard: bool,
    /// An output scale for each class.
    pub class_scales: bool,
    /// Lengths for each class.
    pub class_lengths: bool,
}

impl KernelByName {
    fn of_points(&self, x: MatRef<'_, f64>, y: &[usize]) -> Result<Option<Kernel>> {
        let Some(name) = self.name.as_deref().filter(|name| *name != "auto") else {
            let more = self.ard || self.class_scales || self.class_lengths;
            return if more { Err(Error::KernelNotNamed) } else { Ok(None) };
        };
        let mut kernel = at_median_distance(name, x, y)?;
        let classes = y.iter().max().map_or(0, |most| most + 1);
        if self.ard {
            kernel = kernel.length_per_input(x.ncols());
        }
        if self.class_lengths {
            kernel = kernel.shape_per_class(classes);
        }
        Ok(Some(if self.class_scales { kernel.scale_per_class(classes) } else { kernel }))
    }
}

impl GpClassifier {
    /// Fits with a kernel by its name, its lengths starting at the median distance. `weights`: as for [`GpClassifier::fit_weighted`].
    pub fn fit_named(
        &mut self,
        kernel: &KernelByName,
        x: MatRef<'_, f64>,
        y: &[usize],
        weights: Option<&[f64]>,
    ) -> Result<()> {
        self.kernel = kernel.of_points(x, y)?;
        match (kernel.name.as_deref(), weights) {
            (Some("auto"), weights) => self.fit_choosing(x, y, weights),
            (_, Some(weights)) => self.fit_weighted(x, y, weights),
            (_, None) => self.fit(x, y),
        }
    }
}

/// A kernel by the name of its form, its lengthscales in units of the median distance between standardised points `x` [N, D].
pub fn at_median_distance(name: &str, x: MatRef<'_, f64>, y: &[usize]) -> Result<Kernel> {
    let form = AnyForm::named(name).ok_or_else(|| Error::NoKernel { name: name.into() })?;
    super::inputs::check_features(x, y.len())?;
    let order = order_of_values(x, y);
    let x: Mat<f64> = Standardiser::of(x, &order).apply(x);
    let median = softplus(rbf_at_median_distance(&x, &order)?.raw_shape[0]);
    let names = form.shapes().to_vec();
    let mut kernel = Kernel::new(form);
    for (raw, name) in kernel.raw_shape.iter_mut().zip(names) {
        let start = if name.contains("lengthscale") { median } else { 1.0 };
        *raw = inverse_softplus("kernel shape", start)?;
    }
    // A linear part has about the variance of the others.
    if let Some(place) = kernel.form.beside().linear {
        kernel.raw_shape[place] = inverse_softplus("kernel shape", 2.0 / (median * median).max(1e-12))?;
    }
    kernel.with_scale(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normal;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn the_kernel_that_predicts_best_is_kept() {
        let x = normal(&mut ChaCha8Rng::seed_from_u64(2), 80, 3);
        let y: Vec<usize> = (0..80).map(|i| usize::from(x[(i, 0)] + x[(i, 1)] > 0.0)).collect();
        let mut chosen = GpClassifier::default();
        chosen.fit_choosing(x.as_ref(), &y, None).unwrap();
        let loss = |model: &GpClassifier| model.leave_one_out().unwrap().unwrap().log_loss;
        for name in FORMS {
            let kernel = Some(at_median_distance(name, x.as_ref(), &y).unwrap());
            let mut one = GpClassifier { kernel, ..GpClassifier::default() };
            one.fit(x.as_ref(), &y).unwrap();
            assert!(loss(&chosen) <= loss(&one), "{name}");
        }
        assert!(at_median_distance("nothing", x.as_ref(), &y).is_err());
    }
}
