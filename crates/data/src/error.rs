//! What can be wrong with a data set, as facts: the path, the class, the value and its bound.

use std::path::PathBuf;

/// An error of this crate: each variant says what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried, e.g. `read`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Pixels and dimensions disagree.
    #[error(
        "image {name} of class {class} has {got} bytes, but {width} x {height} x {channels} needs {expected}"
    )]
    ImageShape {
        /// Name of the image.
        name: String,
        /// Name of its class.
        class: String,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// Channels: 1 or 3.
        channels: u8,
        /// Bytes that the dimensions need.
        expected: u64,
        /// Bytes that there are.
        got: u64,
    },
    /// Two classes bear the same name.
    #[error("class {name} appears twice in data set {dataset}")]
    DuplicateClass {
        /// Name of the data set.
        dataset: String,
        /// Name of the class.
        name: String,
    },
    /// A class was asked for that does not exist.
    #[error("data set {dataset} has no class {name}{}", suggest(.nearest))]
    UnknownClass {
        /// Name of the data set.
        dataset: String,
        /// The name that was asked for.
        name: String,
        /// The class whose name comes nearest.
        nearest: Option<String>,
    },
    /// The values of an embedding file do not make rows of equal length.
    #[error("{values} values do not make {rows} vectors of length {dim}")]
    EmbeddingShape {
        /// Number of values.
        values: usize,
        /// Length of a vector.
        dim: usize,
        /// Number of labels.
        rows: usize,
    },
    /// A value of an embedding is NaN or infinite.
    #[error("the vector in row {row} has the value {value} in column {col}: it must be finite")]
    NotFinite {
        /// Row of the source.
        row: usize,
        /// Column.
        col: usize,
        /// The value.
        value: f32,
    },
    /// A label names a class that does not exist.
    #[error("label {label} in row {row} names no class: there are {classes}")]
    Label {
        /// Row of the source.
        row: usize,
        /// Its label.
        label: usize,
        /// Number of classes.
        classes: usize,
    },
    /// There is nothing to work with.
    #[error("{what} is empty: {hint}")]
    Empty {
        /// What is empty.
        what: String,
        /// What to do.
        hint: &'static str,
    },
}

/// `; did you mean X?`, or nothing.
fn suggest(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default()
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
