//! Where images come from: folders, lists, archives, original downloads, and the characters drawn on the spot.

pub mod archive;
pub mod csv;
pub mod embeddings;
pub mod filelist;
pub mod folder;
pub mod glyphs;
pub mod idx;
pub mod listing;
pub mod npy;
pub mod omniglot;
pub mod split_lists;
pub mod tree;
mod walk;

use std::path::{Path, PathBuf};

use crate::Result;
use listing::Listing;
use tree::Tree;

/// What a data set looks like, for those whose files look otherwise.
pub(crate) const LAYOUT_HINT: &str = "A data set has one folder of images per class, or a list: base.json, val.json and novel.json, or \
     train.csv, val.csv and test.csv with the columns filename,label (see docs/data.md)";

/// What a person may say about a source beyond its path.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Hints {
    /// The folder or archive that holds the images of a list.
    pub images: Option<PathBuf>,
    /// A file or folder that says which class belongs to which split.
    pub splits: Option<PathBuf>,
}

/// Lists the data set at `path`, whichever layout it has.
pub fn list(path: &Path, hints: &Hints) -> Result<Listing> {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) && path.is_file() {
        return filelist::list_file(path, hints);
    }
    let tree = Tree::open(path)?;
    if filelist::found_in(&tree) {
        filelist::list(tree, hints)
    } else if csv::found_in(&tree) {
        csv::list(tree, hints)
    } else if omniglot::found_in(&tree) {
        omniglot::list(tree)
    } else {
        folder::list(tree)
    }
}

/// The name of the data set at `path`: its last part without the ending.
pub(crate) fn name_of(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = absolute.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let endings = [".tar.gz", ".tgz", ".tar", ".zip", ".json", ".safetensors", ".npy"];
    let bare = endings.iter().find_map(|e| name.strip_suffix(e));
    bare.unwrap_or(&name).to_owned()
}
