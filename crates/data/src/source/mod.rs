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

/// Whether files have a layout, and how their images are listed then.
type Layout = (fn(&Tree) -> bool, fn(Tree, &Hints) -> Result<Listing>);

/// Every layout, in the order in which they are tried; class folders are what is left.
static LAYOUTS: &[Layout] = &[
    (filelist::found_in, filelist::list),
    (csv::found_in, csv::list),
    (omniglot::found_in, |tree, _| omniglot::list(tree)),
    (|_| true, |tree, _| folder::list(tree)),
];

/// Lists the data set at `path`, whichever layout it has.
pub fn list(path: &Path, hints: &Hints) -> Result<Listing> {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) && path.is_file() {
        return filelist::list_file(path, hints);
    }
    let tree = Tree::open(path)?;
    let (_, list) =
        LAYOUTS.iter().find(|(found_in, _)| found_in(&tree)).expect("the last one takes any tree");
    list(tree, hints)
}

/// The name of the data set at `path`: its last part without the ending.
pub(crate) fn name_of(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = absolute.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let endings = [".tar.gz", ".tgz", ".tar", ".zip", ".json", ".safetensors", ".npy"];
    let bare = endings.iter().find_map(|e| name.strip_suffix(e));
    bare.unwrap_or(&name).to_owned()
}
