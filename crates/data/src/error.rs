//! What can be wrong with a data set, as facts: the path, the class, the value and its bound.

use std::path::{Path, PathBuf};

use crate::fault::BadFile;
use crate::shell::quoted;

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
    /// A path that is neither a folder nor an archive.
    #[error(
        "{path} is neither a folder nor an archive (.zip, .tar, .tar.gz, .tgz) nor an EMNIST `...-ubyte` file"
    )]
    NotATree {
        /// The path.
        path: PathBuf,
    },
    /// An archive that cannot be read.
    #[error("the archive {path} cannot be read: {reason}; fetch or make it again")]
    BadArchive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An archive that grows beyond all measure when it is unpacked.
    #[error(
        "the archive {path} has {packed} bytes and claims to unpack to {unpacked} or more after {entries} entries; \
         it is refused. If you trust it, unpack it and give the folder"
    )]
    ArchiveBomb {
        /// The archive.
        path: PathBuf,
        /// Its size.
        packed: u64,
        /// What the entries counted so far unpack to.
        unpacked: u64,
        /// Entries counted so far.
        entries: usize,
    },
    /// A list (text, CSV, JSON) that cannot be understood.
    #[error("{path}{}: {problem}", at_line(.line))]
    List {
        /// The list.
        path: String,
        /// The line, counted from 1.
        line: Option<usize>,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// Nothing at the path looks like a data set.
    #[error("{path} holds no data set that is known: {found}. {hint}")]
    UnknownLayout {
        /// The path.
        path: String,
        /// What is there.
        found: String,
        /// What would be a data set.
        hint: &'static str,
    },
    /// A file that cannot be used, under the policy that this is an error.
    #[error("{file}. To go on, {}, or leave bad images out with --on-bad-image skip", .file.fault.advice())]
    BadFile {
        /// The file and what is wrong with it.
        file: BadFile,
    },
    /// An original download that is not what it should be.
    #[error("{path} is not the complete {dataset}: {problem}. {hint}")]
    ImportCheck {
        /// The data set.
        dataset: &'static str,
        /// What was looked at.
        path: String,
        /// What was counted, what it should be and what it is.
        problem: String,
        /// Where to get it.
        hint: &'static str,
    },
    /// A file of the cache that cannot be used; the cache is rebuilt then.
    #[error("the cache file {path} cannot be used: {reason}")]
    BadCache {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A split that the data set does not have.
    #[error("data set {dataset} has no split called {name}; it has {known}")]
    UnknownSplit {
        /// The data set.
        dataset: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A data set that comes without a split.
    #[error("data set {dataset} has no split into classes for training, validation and test. {}", how_to_split(.from, *.classes))]
    NoSplit {
        /// The data set.
        dataset: String,
        /// Where it lies.
        from: Option<PathBuf>,
        /// How many classes it has.
        classes: usize,
    },
    /// Domains cannot become validation classes.
    #[error("{count} domains of data set {dataset} cannot be held out for validation: {why}")]
    HoldOut {
        /// Name of the data set.
        dataset: String,
        /// How many were asked for.
        count: usize,
        /// The fact that forbids it.
        why: String,
    },
    /// A data set that is neither a path nor a known name.
    #[error("{name} is neither a file or folder nor the name of a data set{} (`siskin data list` shows those that are known)", suggest(.nearest))]
    UnknownData {
        /// What was asked for.
        name: String,
        /// The known name that comes nearest.
        nearest: Option<String>,
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
        "{} of {split} have fewer than the {needed} images an episode takes: {}; ask for fewer shots or queries (in a \
         config `shot` and `query` of [episode] or [test]), add images, or leave such classes out of the split",
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
    #[error(
        "{of} has {} to draw from, but an episode takes {need}: ask for fewer (in a config `way` of [episode] or [test]), or \
         give this part of the split more classes",
        count(*.have, "class", "classes")
    )]
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

/// The command that makes a split: half of the classes train, a quarter validates.
fn how_to_split(from: &Option<PathBuf>, classes: usize) -> String {
    let (train, val) = (classes / 2, classes / 4);
    let test = classes - train - val;
    let Some(path) = from else { return "Give a split file (docs/data.md)".into() };
    let (data, out, then) = match path.is_dir() {
        true => (quoted(path), path.join("splits.json"), String::new()),
        false => {
            let import = format!("; then `siskin data import {} --splits splits.json`", quoted(path));
            (quoted(path), PathBuf::from("splits.json"), import)
        }
    };
    format!(
        "Make one, for instance by `siskin data split --data {data} --make {train},{val} --out {}`: {train} classes to \
         train, {val} to validate, {test} to test{then}. Or write one (docs/data.md)",
        quoted(out)
    )
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

impl Error {
    /// What the system said when something was tried with a file.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::Io { action, path: path.to_owned(), source }
    }
}

/// ` line 3`, or nothing.
fn at_line(line: &Option<usize>) -> String {
    line.map(|n| format!(" line {n}")).unwrap_or_default()
}

/// `; did you mean X?`, or nothing.
fn suggest(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default()
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
