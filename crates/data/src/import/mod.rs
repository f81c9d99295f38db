//! Original downloads: where to get them, how to read them, and whether they are complete.
//!
//! Nothing is downloaded. The standard few-shot splits are built in where they are rules; lists of names are read from
//! the files their authors publish.

mod cub;
mod emnist;
mod mini_imagenet;
mod omniglot;

use std::path::{Path, PathBuf};

use crate::source::Hints;
use crate::source::listing::Listing;
use crate::{Error, Result};

/// A data set as its authors give it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Original {
    /// Caltech-UCSD Birds 200-2011.
    Cub,
    /// mini-ImageNet, split of Ravi and Larochelle.
    MiniImagenet,
    /// Omniglot.
    Omniglot,
    /// EMNIST, ByClass.
    Emnist,
}

/// What a person must know to fetch and import a data set.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its short name.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Where to get it.
    pub get: &'static str,
    /// What to give to the import.
    pub give: &'static str,
    /// Its splits.
    pub splits: &'static str,
}

impl Original {
    /// All of them.
    pub const ALL: [Original; 4] =
        [Original::Cub, Original::MiniImagenet, Original::Omniglot, Original::Emnist];

    /// What a person must know.
    pub fn about(self) -> &'static About {
        match self {
            Original::Cub => &cub::ABOUT,
            Original::MiniImagenet => &mini_imagenet::ABOUT,
            Original::Omniglot => &omniglot::ABOUT,
            Original::Emnist => &emnist::ABOUT,
        }
    }

    /// By its short name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.about().name == name)
    }

    /// Lists the download at `path` and checks that it is complete.
    pub fn list(self, path: &Path, hints: &Hints) -> Result<Listing> {
        let mut listing = match self {
            Original::Cub => cub::list(path),
            Original::MiniImagenet => mini_imagenet::list(path, hints),
            Original::Omniglot => omniglot::list(path),
            Original::Emnist => emnist::list(path),
        }?;
        self.about().name.clone_into(&mut listing.name);
        Ok(listing)
    }

    /// The folders and archives that `path` stands for.
    pub(crate) fn roots(self, path: &Path) -> Result<Vec<PathBuf>> {
        match self {
            Original::Cub | Original::MiniImagenet => Ok(vec![path.to_owned()]),
            Original::Omniglot => Ok(omniglot::roots(path)),
            Original::Emnist => Ok(vec![emnist::images_file(path)?]),
        }
    }

    /// An error unless what was counted is what it should be.
    fn expect(self, listing: &Listing, what: &str, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let path =
            listing.trees.iter().map(|t| t.root.display().to_string()).collect::<Vec<_>>().join(" and ");
        Err(Error::ImportCheck {
            dataset: self.about().name,
            path,
            problem: format!("{what} should be {expected}, but is {found}"),
            hint: self.about().get,
        })
    }
}
