//! What is wrong with one file: counted and skipped, or an error, as the policy says.

use crate::shell::one_line;

/// What to do when an image of a data set cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadImage {
    /// Stop with an error that names the file.
    #[default]
    Error,
    /// Leave the file out, count it and name it in the report.
    Skip,
}

/// A file that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BadFile {
    /// Where it lies: its path, behind that of its archive if it is in one.
    pub path: String,
    /// What is wrong with it.
    pub fault: Fault,
}

impl std::fmt::Display for BadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", one_line(&self.path), self.fault)
    }
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// No byte in it.
    #[error("the file is empty (0 bytes)")]
    Empty,
    /// It ends before the image does.
    #[error("the image is cut short: the file ends before the picture does")]
    Truncated,
    /// No known image format.
    #[error("the content is no image that can be read (JPEG, PNG, GIF, BMP, WebP, TIFF, PNM)")]
    UnknownFormat,
    /// More pixels than may be decoded.
    #[error("the header claims {width} x {height} pixels; at most {limit} pixels are decoded")]
    TooManyPixels {
        /// Claimed width.
        width: u32,
        /// Claimed height.
        height: u32,
        /// The bound on width x height.
        limit: u64,
    },
    /// More bytes than may be read.
    #[error("the file has {bytes} bytes or more; at most {limit} are read")]
    TooManyBytes {
        /// Its size, as far as known.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
    /// The decoder refused.
    #[error("the image cannot be decoded: {reason}")]
    Decode {
        /// What the decoder said.
        reason: String,
    },
    /// The operating system or the archive refused.
    #[error("the file cannot be read: {reason}")]
    Unreadable {
        /// What was said.
        reason: String,
    },
    /// A list names it, but it is not there.
    #[error("the file does not exist, but {list} line {line} names it")]
    Missing {
        /// The list.
        list: String,
        /// Its line, or its entry, counted from 1.
        line: usize,
    },
    /// A list names it, and more than one file could be meant.
    #[error("{list} line {line} may mean {first} or {second}")]
    Ambiguous {
        /// The list.
        list: String,
        /// Its line, or its entry, counted from 1.
        line: usize,
        /// One of the files.
        first: String,
        /// Another.
        second: String,
    },
    /// Its name is not UTF-8.
    #[error("the name is not valid UTF-8")]
    NameNotUtf8,
    /// An archive entry that would lie outside the archive.
    #[error("the path leads out of the archive")]
    OutsideArchive,
    /// An archive entry that is a link.
    #[error("links in archives are not followed")]
    LinkInArchive,
    /// An archive entry that is neither file, folder nor link.
    #[error("the entry is a device or another special file")]
    SpecialFile,
    /// A symbolic link to a folder that contains it.
    #[error("the symbolic link leads back to a folder above it")]
    LinkLoop,
    /// Folders within folders without end.
    #[error("folders are nested more than {limit} deep")]
    TooDeep {
        /// The bound.
        limit: usize,
    },
}

impl Fault {
    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Fault::Empty | Fault::Truncated => "fetch the file again from where it came",
            Fault::UnknownFormat | Fault::Decode { .. } => {
                "convert it to PNG or JPEG (HEIC and AVIF photos too), or remove it"
            }
            Fault::TooManyPixels { .. } | Fault::TooManyBytes { .. } => {
                "make the image smaller, or remove it"
            }
            Fault::Unreadable { .. } => "check that the file is there and that you may read it",
            Fault::Missing { .. } => "put the file there, or take the line out of the list",
            Fault::Ambiguous { .. } => "write the path with its folders in the list",
            Fault::NameNotUtf8 => "rename the file",
            Fault::OutsideArchive | Fault::LinkInArchive | Fault::SpecialFile => {
                "make the archive again from plain files, without `..`, absolute paths or links"
            }
            Fault::LinkLoop | Fault::TooDeep { .. } => "remove the link or flatten the folders",
        }
    }
}
