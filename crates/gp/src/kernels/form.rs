//! What a kernel's form has to say, and forms by name.

use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// What a form sees of two feature vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The inner product `<x, x'>`.
    Product,
    /// The cosine of the angle between them: the inner product after each was divided by its length.
    Cosine,
    /// The squared distance `|x - x'|^2`: the kernel is stationary.
    SquaredDistance,
}

/// Parts of a sum that are no function of the squared distance, by the place of their variance among the shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beside {
    /// `variance <x, x'>`.
    pub linear: Option<usize>,
    /// `variance` for a point with itself, 0 for any two: noise of the latent function.
    pub white: Option<usize>,
}

/// The form of a kernel before its output scale: one file of this folder for each.
///
/// Its shape parameters (lengthscales, offsets, ...) are positive; any number of them. [`crate::kernels::Kernel`] stores them, one
/// set for all classes or one for each class, and divides the inputs by a length of each dimension where that is asked for.
pub trait Form: Debug + Send + Sync {
    /// The name in configs, files and Python.
    fn name(&self) -> String;

    /// What the form is a function of.
    fn statistic(&self) -> Statistic;

    /// The names of the shape parameters, in the order in which they come; none unless the form says so.
    fn shapes(&self) -> &[&'static str] {
        &[]
    }

    /// What the kernel has beside a function of the statistic.
    fn beside(&self) -> Beside {
        Beside::default()
    }

    /// `k(s)` for the statistic `s` of two points.
    fn value(&self, s: f64, shape: &[f64]) -> f64;

    /// `dk/ds`, given `k = k(s)` too; puts `dk/dshape` into `by_shape`.
    fn slopes(&self, s: f64, k: f64, shape: &[f64], by_shape: &mut [f64]) -> f64;

    /// [`Form::value`] of many statistics, in place.
    fn values(&self, column: &mut [f64], shape: &[f64]) {
        for s in column {
            *s = self.value(*s, shape);
        }
    }

    /// From the cotangents `bar` of many values `k`, those of their statistics `s`, in place; adds to those of the shapes.
    fn pull(&self, s: &[f64], k: &[f64], bar: &mut [f64], shape: &[f64], shape_bar: &mut [f64]) {
        let mut by_shape = [0.0; MOST_SHAPES];
        let by_shape = &mut by_shape[..shape.len()];
        for ((s, k), bar) in s.iter().zip(k).zip(bar) {
            let by_s = self.slopes(*s, *k, shape, by_shape);
            for (total, slope) in shape_bar.iter_mut().zip(&*by_shape) {
                *total += *bar * slope;
            }
            *bar *= by_s;
        }
    }
}

/// Shape parameters of one form at most.
pub(super) const MOST_SHAPES: usize = 8;

/// A form that is known by its name alone.
#[derive(Clone)]
pub struct AnyForm(Arc<dyn Form>);

impl AnyForm {
    /// The form with this name; `None` if there is none.
    pub fn named(name: &str) -> Option<AnyForm> {
        super::FORMS.iter().find_map(|family| (family.named)(name))
    }

    /// The names of all forms (a polynomial may have any power).
    pub fn names() -> Vec<String> {
        super::FORMS.iter().flat_map(|family| (family.names)()).collect()
    }

    /// Whether feature vectors are always divided by their length first.
    pub(crate) fn on_unit_vectors(&self) -> bool {
        self.statistic() == Statistic::Cosine
    }

    /// Whether the kernel is a function of the distance.
    pub fn is_stationary(&self) -> bool {
        self.statistic() == Statistic::SquaredDistance
    }
}

impl<F: Form + 'static> From<F> for AnyForm {
    fn from(form: F) -> Self {
        AnyForm(Arc::new(form))
    }
}

impl std::ops::Deref for AnyForm {
    type Target = dyn Form;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Debug for AnyForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl PartialEq for AnyForm {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for AnyForm {}

impl Serialize for AnyForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for AnyForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        AnyForm::named(&name).ok_or_else(|| {
            let known: Vec<String> = AnyForm::names().iter().map(|known| format!("`{known}`")).collect();
            D::Error::custom(format!("unknown variant `{name}`, expected one of {}", known.join(", ")))
        })
    }
}
