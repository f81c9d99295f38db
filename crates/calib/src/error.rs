//! What can be wrong with the numbers handed in.

use thiserror::Error;

/// Bad input, with the facts.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing to measure.
    #[error("{what} is empty; at least one entry is needed")]
    Empty {
        /// Name of the empty input.
        what: &'static str,
    },
    /// Too few values for a standard deviation.
    #[error("a 95 % interval needs at least 2 episodes, but {found} was given")]
    TooFewEpisodes {
        /// How many there were.
        found: usize,
    },
    /// Fewer than two classes.
    #[error("{classes} class given; a classifier needs at least 2")]
    TooFewClasses {
        /// The class count given.
        classes: usize,
    },
    /// The flat array does not split into rows.
    #[error("{len} values do not split into rows of {classes} classes")]
    RaggedRows {
        /// Length of the flat array.
        len: usize,
        /// Class count, the row length.
        classes: usize,
    },
    /// Two inputs that go together have different lengths.
    #[error("{left} has {left_len} entries but {right} has {right_len}")]
    LengthMismatch {
        /// Name of the first input.
        left: &'static str,
        /// Its length.
        left_len: usize,
        /// Name of the second input.
        right: &'static str,
        /// Its length.
        right_len: usize,
    },
    /// An entry is NaN, negative or above one.
    #[error("row {row}, class {class}: {value} is not a probability")]
    NotProbability {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        class: usize,
        /// The entry.
        value: f64,
    },
    /// A row is no distribution.
    #[error("the probabilities of row {row} sum to {sum}, not to 1")]
    RowSum {
        /// The row.
        row: usize,
        /// What it sums to.
        sum: f64,
    },
    /// A label names no class.
    #[error("row {row} has label {label}, but there are {classes} classes (0 to {})", classes - 1)]
    LabelOutOfRange {
        /// Row of the label.
        row: usize,
        /// The label.
        label: usize,
        /// Class count.
        classes: usize,
    },
    /// A value is NaN, or infinite where that has no meaning.
    #[error("{what}: entry {index} is {value}")]
    BadValue {
        /// Name of the input.
        what: &'static str,
        /// Position of the value.
        index: usize,
        /// The value.
        value: f64,
    },
    /// No bins asked for.
    #[error("0 bins asked for; at least 1 is needed")]
    ZeroBins,
    /// A parameter outside its range.
    #[error("{name} = {value} is out of range: it must be {range}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        range: &'static str,
    },
    /// The true class was given probability zero: no temperature gives it a finite NLL.
    #[error(
        "row {row}: the true class {label} has probability 0, so the NLL is infinite at every temperature"
    )]
    ImpossibleLabel {
        /// Row of the label.
        row: usize,
        /// The label.
        label: usize,
    },
}

/// `Ok` if the two lengths agree.
pub(crate) fn same_length(left: (&'static str, usize), right: (&'static str, usize)) -> Result<(), Error> {
    if left.1 == right.1 {
        return Ok(());
    }
    Err(Error::LengthMismatch { left: left.0, left_len: left.1, right: right.0, right_len: right.1 })
}

/// `Ok` if there is something and none of it is NaN or infinite.
pub(crate) fn finite(what: &'static str, values: &[f64]) -> Result<(), Error> {
    if values.is_empty() {
        return Err(Error::Empty { what });
    }
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(index) => Err(Error::BadValue { what, index, value: values[index] }),
    }
}
