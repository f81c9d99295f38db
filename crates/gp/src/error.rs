//! What can be wrong with the numbers a caller hands in, as facts.

/// An error of this crate: each variant carries the facts a person needs to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two things that must agree in size do not.
    #[error("{what}: expected {expected}, got {got}")]
    Shape {
        /// What was measured, e.g. `rows of k`.
        what: &'static str,
        /// The size it should have.
        expected: usize,
        /// The size it has.
        got: usize,
    },
    /// An array has the wrong number of rows or columns.
    #[error("{what} has {got} {side}, expected {expected}")]
    ShapeOf {
        /// The name of the array.
        what: &'static str,
        /// `rows` or `columns`.
        side: &'static str,
        /// The size it should have.
        expected: usize,
        /// The size it has.
        got: usize,
    },
    /// A matrix that must be symmetric is not.
    #[error("{what} is not symmetric: entries ({row}, {col}) and ({col}, {row}) differ by {gap:e}")]
    NotSymmetric {
        /// The name of the matrix.
        what: &'static str,
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        col: usize,
        /// By how much the two entries differ.
        gap: f64,
    },
    /// A value is NaN or infinite.
    #[error("{what} is not finite in row {row}, column {col}: {value}")]
    NotFinite {
        /// The name of the array.
        what: &'static str,
        /// Row of the value.
        row: usize,
        /// Column of the value.
        col: usize,
        /// The value.
        value: f64,
    },
    /// A scalar is outside its range.
    #[error("{what} = {value} is out of range: it must be {must}")]
    OutOfRange {
        /// The name of the scalar.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The range in words, e.g. `> 0`.
        must: &'static str,
    },
    /// A label names a class that does not exist.
    #[error("label {label} of point {row} is out of range: there are {classes} classes (0 to {})", classes - 1)]
    Label {
        /// Index of the point.
        row: usize,
        /// Its label.
        label: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A class has no example.
    #[error("class {class} has no example")]
    EmptyClass {
        /// The class.
        class: usize,
    },
    /// Nothing was given where at least one is needed.
    #[error("{what} is empty: at least {needed} needed")]
    Empty {
        /// What is empty.
        what: &'static str,
        /// How many are needed.
        needed: usize,
    },
    /// An iteration whose result is only right at its fixed point did not reach it.
    #[error(
        "{what} did not converge in {steps} steps: the last change was {change:e}, the tolerance is {tol:e}"
    )]
    NotConverged {
        /// The iteration.
        what: &'static str,
        /// Steps done.
        steps: usize,
        /// Size of the last change.
        change: f64,
        /// The tolerance it should reach.
        tol: f64,
    },
    /// A matrix that must be positive definite is not.
    #[error("{what} is not positive definite (pivot {pivot})")]
    NotPositiveDefinite {
        /// The name of the matrix.
        what: &'static str,
        /// Index of the failing pivot.
        pivot: usize,
    },
    /// Class probabilities that do not sum to 1: the integrals failed.
    #[error("the class probabilities of point {row} sum to {sum}, further from 1 than {tol:e}")]
    NotNormalised {
        /// The point.
        row: usize,
        /// What its probabilities sum to.
        sum: f64,
        /// How far from 1 the sum may be.
        tol: f64,
    },
    /// Inducing points share one kernel.
    #[error(
        "a kernel whose shapes or lengths differ by class cannot be used with inducing points: share them, or ask for the exact fit \
         (no inducing points), which takes fewer rows"
    )]
    PerClassKernel,
    /// Only the logistic-softmax model with direct inference has inducing points.
    #[error("inducing points need likelihood logistic-softmax and direct inference")]
    NoInducing,
    /// Only the logistic-softmax model with direct inference weighs points.
    #[error("weights of points or classes need likelihood logistic-softmax and direct inference")]
    NoWeights,
    /// A classifier from before the shares of its classes were kept.
    #[error(
        "this classifier was saved before the shares of its classes were kept: fit it again to give it a class prior"
    )]
    NoShares,
    /// Only the logistic-softmax model with direct inference chooses a kernel.
    #[error("choosing a kernel needs likelihood logistic-softmax and direct inference")]
    NoChoice,
    /// What is learned for each input or class belongs to a kernel that was named.
    #[error(
        "a length for each input (ard), scales and lengths for each class (class_scales, class_lengths) need a kernel by its name, such as rbf; \
         the default and auto have none"
    )]
    KernelNotNamed,
    /// There is no form of a kernel with this name.
    #[error("kernel {name:?} is not known; there are: auto, {}", crate::kernels::AnyForm::names().join(", "))]
    NoKernel {
        /// The name.
        name: String,
    },
    /// What makes no label set.
    #[error("{0}")]
    LabelSets(&'static str),
    /// A classifier by inducing points keeps no training points.
    #[error(
        "{what} needs all training points; this classifier keeps inducing points in their place. Fit it without (`inducing` 0)"
    )]
    NeedsAllPoints {
        /// What was asked for.
        what: &'static str,
    },
    /// Labels of one class only: nothing to tell apart.
    #[error("all labels are 0: a classifier needs at least 2 classes")]
    OneClass,
    /// A fit would need more memory than it may.
    #[error(
        "{points} points of {classes} classes would need about {gigabytes:.1} GB; at most {most} GB are taken. Give fewer points \
         or fewer classes"
    )]
    TooLarge {
        /// Number of points.
        points: usize,
        /// Number of classes.
        classes: usize,
        /// What the fit is predicted to need.
        gigabytes: f64,
        /// What it may need.
        most: f64,
    },
    /// A classifier was asked before it was fitted.
    #[error("the classifier has not been fitted: call `fit` or `load` first")]
    NotFitted,
    /// A fit was ended from outside.
    #[error("the fit was cancelled")]
    Cancelled,
    /// A saved classifier cannot be written or read.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong, in words.
        problem: String,
    },
}

impl Error {
    /// The same error of one row of an array, with the row it happened in.
    pub(crate) fn in_row(self, row: usize) -> Self {
        match self {
            Self::NotFinite { what, col, value, .. } => Self::NotFinite { what, row, col, value },
            Self::NotNormalised { sum, tol, .. } => Self::NotNormalised { row, sum, tol },
            other => other,
        }
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
