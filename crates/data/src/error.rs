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
    /// A setting of episodes that makes no sense.
    #[error("the episode setting {field} is {value}, but must {must}")]
    EpisodeSpec {
        /// The setting.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        must: &'static str,
    },
    /// Classes with fewer images than an episode takes.
    #[error(
        "{} of {split} have fewer than the {needed} images an episode takes: {}; ask for fewer shots or queries, or \
         set short_classes to \"skip\" or \"fewer-queries\"",
        count(.classes.len(), "class", "classes"),
        shortened(.classes)
    )]
    ShortClasses {
        /// The split.
        split: String,
        /// Images an episode takes of a class.
        needed: usize,
        /// Name and number of images of each such class.
        classes: Vec<(String, usize)>,
    },
    /// Fewer classes than an episode takes.
    #[error("{of} has {} to draw from, but an episode takes {need}", count(*.have, "class", "classes"))]
    FewClasses {
        /// The split or domain.
        of: String,
        /// Classes that can be drawn.
        have: usize,
        /// Classes of an episode.
        need: usize,
    },
    /// An episode beyond the end of a list.
    #[error("there is no episode {index}: the list ends after {count}")]
    NoEpisode {
        /// The episode asked for.
        index: u64,
        /// Number of episodes.
        count: u64,
    },
    /// A line of an episode list that cannot be used.
    #[error("line {line} of the episode list {path}: {reason}")]
    EpisodeLine {
        /// The list.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// An episode list made for other data.
    #[error(
        "the episode list {path} does not belong to this data: the {what} is {file} in the list, {data} here"
    )]
    EpisodeListMismatch {
        /// The list.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// Its value in the list.
        file: String,
        /// Its value here.
        data: String,
    },
    /// A thread of the loader ended before its work did.
    #[error("the loader stopped at episode {index}: a thread that prepares episodes {what}")]
    LoaderStopped {
        /// The episode that was to come.
        index: u64,
        /// What happened to the thread.
        what: String,
    },
    /// Pictures were asked for of a data set without images.
    #[error("data set {dataset} holds embeddings: there are no images to show")]
    NotImages {
        /// The data set.
        dataset: String,
    },
    /// A picture that cannot be written as PNG.
    #[error("cannot write the picture {path}: {reason}")]
    Picture {
        /// Where it should go.
        path: PathBuf,
        /// What the encoder said.
        reason: String,
    },
}

/// `1 class`, `2 classes`.
fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The first ten classes with their numbers of images, and how many more there are.
fn shortened(classes: &[(String, usize)]) -> String {
    let mut names: Vec<String> = classes.iter().take(10).map(|(name, n)| format!("{name} ({n})")).collect();
    if classes.len() > 10 {
        names.push(format!("and {} more", classes.len() - 10));
    }
    names.join(", ")
}

/// `; did you mean X?`, or nothing.
fn suggest(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default()
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
