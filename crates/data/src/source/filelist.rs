//! CloserLookFewShot's lists: `base.json`, `val.json`, `novel.json`, each with `label_names`, `image_names` and
//! `image_labels`. Their paths are absolute and from another machine: images are found again by their last folders.

use std::path::{Path, PathBuf};

use super::csv::finish;
use super::listing::{Finder, Listing, Row};
use super::tree::Tree;
use super::{Hints, name_of};
use crate::split::SplitName;
use crate::{Error, Result};

/// Larger than any list of images.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// Whether a tree has one of the three lists at its top.
pub(crate) fn found_in(tree: &Tree) -> bool {
    tree.has("base.json") || tree.has("novel.json")
}

/// Lists the images that the lists of a tree name.
pub fn list(tree: Tree, hints: &Hints) -> Result<Listing> {
    let mut lists = Vec::new();
    for (split, name) in
        [(SplitName::Train, "base.json"), (SplitName::Val, "val.json"), (SplitName::Test, "novel.json")]
    {
        if tree.has(name) {
            let shown = tree.display(name);
            lists.push((Some(split), parse(&tree.text(name, MAX_LIST_BYTES)?, &shown)?, shown));
        }
    }
    let name = name_of(&tree.root);
    gather(name, tree, lists, hints)
}

/// Lists the images that one list names; it makes no split.
pub(crate) fn list_file(path: &Path, hints: &Hints) -> Result<Listing> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let size = std::fs::metadata(path).map_err(|source| Error::io("open", path, source))?.len();
    let shown = path.display().to_string();
    if size > MAX_LIST_BYTES {
        let problem = format!("the list has {size} bytes, more than {MAX_LIST_BYTES}");
        return Err(Error::List { path: shown, line: None, problem });
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::io("read", path, source))?;
    let list = parse(&text, &shown)?;
    gather(name_of(path), Tree::open(folder)?, vec![(None, list, shown)], hints)
}

fn gather(
    name: String,
    tree: Tree,
    lists: Vec<(Option<SplitName>, FileList, String)>,
    hints: &Hints,
) -> Result<Listing> {
    let images = match &hints.images {
        Some(path) => Some(Tree::open(path)?),
        None => common_folder(&lists).map(|path| Tree::open(&path)).transpose()?,
    };
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    {
        let finder = Finder::new(images.as_ref().unwrap_or(&tree));
        for (split, list, shown) in lists {
            for (entry, (image, label)) in list.image_names.iter().zip(list.image_labels).enumerate() {
                let class = &list.label_names[label];
                match finder.find(image, &shown, entry + 1) {
                    Ok(found) => rows.push(Row {
                        class: class.clone(),
                        domain: None,
                        tree: usize::from(images.is_some()),
                        name: format!("{class}/{}", found.rsplit('/').next().unwrap_or(found)),
                        path: found.to_owned(),
                        split,
                    }),
                    Err(missing) => bad.push(missing),
                }
            }
        }
    }
    let mut trees = vec![tree];
    trees.extend(images);
    finish(name, "CloserLook file lists", trees, rows, bad)
}

/// The folder that holds all listed images, if they are where the lists say.
fn common_folder(lists: &[(Option<SplitName>, FileList, String)]) -> Option<PathBuf> {
    let mut paths = lists.iter().flat_map(|(_, list, _)| &list.image_names).map(Path::new);
    let first = paths.next()?;
    if !first.is_absolute() || !first.is_file() {
        return None;
    }
    let mut common = first.parent()?.to_owned();
    for path in paths {
        while !path.starts_with(&common) {
            common = common.parent()?.to_owned();
        }
    }
    Some(common)
}

/// A file list, checked.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct FileList {
    /// Names of the classes.
    pub label_names: Vec<String>,
    /// Paths of the images.
    pub image_names: Vec<String>,
    /// For each image the index of its class.
    pub image_labels: Vec<usize>,
}

/// Reads a list. `path`: how to name it in errors.
pub fn parse(text: &str, path: &str) -> Result<FileList> {
    let problem = |problem: String| Error::List { path: path.to_owned(), line: None, problem };
    let expected = "expected the keys label_names, image_names and image_labels";
    let list: FileList = serde_json::from_str(text).map_err(|e| {
        let found: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(text).ok();
        let keys = found.map(|map| map.keys().cloned().collect::<Vec<_>>().join(", "));
        let keys = keys.map(|k| format!(", found {k}")).unwrap_or_default();
        problem(format!("{e}; {expected}{keys}"))
    })?;
    if list.image_names.len() != list.image_labels.len() {
        let (names, labels) = (list.image_names.len(), list.image_labels.len());
        return Err(problem(format!("there are {names} image_names and {labels} image_labels")));
    }
    let classes = list.label_names.len();
    if let Some((i, label)) = list.image_labels.iter().enumerate().find(|(_, l)| **l >= classes) {
        return Err(problem(format!(
            "image {} has the label {label}, but there are {classes} label_names",
            i + 1
        )));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    fn json(root: &str, images: &[(&str, usize)]) -> String {
        let names: Vec<_> = images.iter().map(|(n, _)| format!("\"{root}/{n}\"")).collect();
        let labels: Vec<_> = images.iter().map(|(_, l)| l.to_string()).collect();
        format!(
            r#"{{"label_names": ["a", "b", "c"], "image_names": [{}], "image_labels": [{}]}}"#,
            names.join(","),
            labels.join(",")
        )
    }

    fn images(dir: &Path) {
        for path in ["images/a/1.jpg", "images/a/2.jpg", "images/b/1.jpg", "images/c/1.jpg"] {
            std::fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.join(path), b"x").unwrap();
        }
    }

    fn lists(dir: &Path, root: &str) {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("base.json"), json(root, &[("a/1.jpg", 0), ("a/2.jpg", 0)])).unwrap();
        std::fs::write(dir.join("val.json"), json(root, &[("b/1.jpg", 1)])).unwrap();
        std::fs::write(dir.join("novel.json"), json(root, &[("c/1.jpg", 2), ("c/7.jpg", 2)])).unwrap();
    }

    #[test]
    fn foreign_absolute_paths_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        images(dir.path());
        lists(&dir.path().join("lists"), "/home/someone/CUB/images");
        let hints = Hints { images: Some(dir.path().to_owned()), splits: None };
        let listing = crate::source::list(&dir.path().join("lists"), &hints).unwrap();
        assert_eq!(listing.items.len(), 4);
        assert_eq!(listing.items[2].name, "b/1.jpg", "and not the 1.jpg of another class");
        assert_eq!(listing.schemes[0].parts.each_ref().map(Vec::len), [1, 1, 1]);
        assert_eq!(listing.bad.len(), 1);
        assert!(
            matches!(&listing.bad[0].fault, Fault::Missing { list, line: 2 } if list.ends_with("novel.json"))
        );
    }

    #[test]
    fn paths_that_are_right_need_no_hint() {
        let dir = tempfile::tempdir().unwrap();
        images(dir.path());
        let root = dir.path().join("images");
        lists(&dir.path().join("lists"), root.to_str().unwrap());
        let listing = crate::source::list(&dir.path().join("lists"), &Hints::default()).unwrap();
        assert_eq!((listing.items.len(), listing.bad.len()), (4, 1));
        let one = crate::source::list(&dir.path().join("lists/base.json"), &Hints::default()).unwrap();
        assert_eq!((one.items.len(), one.schemes.len()), (2, 0));
    }

    #[test]
    fn wrong_keys_counts_and_labels_are_named() {
        for (text, expected) in [
            (r#"{"labels": [], "images": []}"#, "found images, labels"),
            ("[1, 2]", "expected the keys label_names"),
            ("{", "expected the keys label_names"),
            (
                r#"{"label_names": ["a"], "image_names": ["x"], "image_labels": []}"#,
                "1 image_names and 0 image_labels",
            ),
            (
                r#"{"label_names": ["a"], "image_names": ["x"], "image_labels": [3]}"#,
                "image 1 has the label 3",
            ),
            (r#"{"label_names": ["a"], "image_names": ["x"], "image_labels": [-1]}"#, "-1"),
        ] {
            let error = parse(text, "base.json").unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with("base.json"), "{error}");
        }
    }
}
