//! The split of Ravi and Larochelle: `train.csv`, `val.csv`, `test.csv` with the columns `filename,label`, and the images
//! beside them or where the person says.

use std::collections::BTreeSet;

use super::listing::{Finder, Listing, Row, is_image, need_images};
use super::tree::Tree;
use super::{Hints, name_of};
use crate::fault::BadFile;
use crate::split::SplitName;
use crate::{Error, Result};

/// Larger than any list of images.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// Whether a tree has one of the three lists.
pub(crate) fn found_in(tree: &Tree) -> bool {
    !lists_of(tree).is_empty()
}

/// The lists of a tree with the split each stands for, those in the least deep folder that has any.
fn lists_of(tree: &Tree) -> Vec<(SplitName, &str)> {
    let list = |path: &'_ str| {
        let name = path.rsplit('/').next()?.strip_suffix(".csv")?;
        SplitName::parse(name)
    };
    let all = tree.files.iter().filter_map(|f| Some((list(&f.path)?, f.path.as_str())));
    let mut all: Vec<_> = all.collect();
    let depth = |path: &str| path.matches('/').count();
    let least = all.iter().map(|(_, path)| depth(path)).min().unwrap_or(0);
    all.retain(|(_, path)| depth(path) == least);
    all.sort();
    all
}

/// Lists the images that the lists name.
pub fn list(tree: Tree, hints: &Hints) -> Result<Listing> {
    let images = hints.images.as_deref().map(Tree::open).transpose()?;
    let mut rows = Vec::new();
    let mut bad = Vec::new();
    {
        let image_tree = images.as_ref().unwrap_or(&tree);
        let finder = Finder::new(image_tree);
        for (split, path) in lists_of(&tree) {
            let shown = tree.display(path);
            let text = tree.text(path, MAX_LIST_BYTES)?;
            for entry in parse(&text, &shown)? {
                match finder.find(&format!("{}/{}", entry.label, entry.filename), &shown, entry.line) {
                    Ok(found) => rows.push(Row {
                        name: format!("{}/{}", entry.label, entry.filename),
                        class: entry.label,
                        domain: None,
                        tree: usize::from(images.is_some()),
                        path: found.to_owned(),
                        split: Some(split),
                    }),
                    Err(missing) => bad.push(missing),
                }
            }
        }
    }
    let name = name_of(&tree.root);
    let mut trees = vec![tree];
    trees.extend(images);
    finish(name, "CSV lists (filename,label)", trees, rows, bad)
}

/// A listing of rows that lists name: images that no list names are passed over, not a fault.
pub(super) fn finish(
    name: String,
    layout: &'static str,
    trees: Vec<Tree>,
    rows: Vec<Row>,
    bad: Vec<BadFile>,
) -> Result<Listing> {
    let mut listing = Listing::assemble(name, layout, trees, rows);
    listing.bad.extend(bad);
    listing.ignored.retain(|path| !is_image(path));
    need_images(listing)
}

/// A row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the image file.
    pub filename: String,
    /// Name of the class.
    pub label: String,
    /// Line in the list, counted from 1.
    pub line: usize,
}

/// The rows of a list, which begins with the line `filename,label`. `path`: how to name the list in errors.
pub fn parse(text: &str, path: &str) -> Result<Vec<Entry>> {
    let fail =
        |line: usize, problem: String| Error::List { path: path.to_owned(), line: Some(line), problem };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|e| fail(1, e.to_string()))?.clone();
    let column =
        |name: &str| headers.iter().position(|h| h.trim_start_matches('\u{feff}').eq_ignore_ascii_case(name));
    let (Some(filename), Some(label)) = (column("filename"), column("label")) else {
        let found: Vec<&str> = headers.iter().collect();
        return Err(fail(1, format!("expected the columns filename,label, found {}", found.join(","))));
    };
    let (mut entries, mut seen) = (Vec::new(), BTreeSet::new());
    for record in reader.records() {
        let record = record.map_err(|e| {
            let line = e.position().map_or(0, |p| p.line() as usize);
            fail(line, e.to_string())
        })?;
        let line = record.position().map_or(0, |p| p.line() as usize);
        let cell = |at: usize| record.get(at).filter(|c| !c.is_empty()).map(str::to_owned);
        let (Some(filename), Some(label)) = (cell(filename), cell(label)) else {
            return Err(fail(line, "the filename or the label is empty".into()));
        };
        if label.contains(['/', '\\', '\0']) || label == "." || label == ".." {
            return Err(fail(line, format!("`{label}` cannot be the name of a class")));
        }
        if seen.insert((label.clone(), filename.clone())) {
            entries.push(Entry { filename, label, line });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    const LISTS: [(&str, &str); 3] = [
        ("train.csv", "filename,label\nn01_1.jpg,n01\nn01_2.jpg,n01\nn02_1.jpg,n02\n"),
        ("val.csv", "filename,label\nn03_1.jpg,n03\n"),
        ("test.csv", "filename,label\nn04_1.jpg,n04\nn04_9.jpg,n04\n"),
    ];

    #[test]
    fn lists_make_classes_splits_and_name_rows_that_point_nowhere() {
        let images = ["n01_1", "n01_2", "n02_1", "n03_1", "n04_1"].map(|n| format!("images/{n}.jpg"));
        let mut files = LISTS.to_vec();
        files.extend(images.iter().map(|n| (n.as_str(), "x")));
        let dir = folder(&files);
        let listing = list(Tree::open(dir.path()).unwrap(), &Hints::default()).unwrap();
        assert_eq!(listing.classes.len(), 4);
        assert_eq!(listing.items[0].path, "images/n01_1.jpg");
        let sizes = listing.schemes[0].parts.each_ref().map(Vec::len);
        assert_eq!(sizes, [2, 1, 1]);
        assert_eq!(listing.bad.len(), 1);
        assert!(listing.bad[0].path.contains("n04_9.jpg"));
        assert!(
            matches!(&listing.bad[0].fault, Fault::Missing { list, line: 3 } if list.ends_with("test.csv"))
        );
    }

    #[test]
    fn images_may_lie_elsewhere_in_class_folders() {
        let lists = folder(&LISTS);
        let names = ["n01/n01_1", "n01/n01_2", "n02/n02_1", "n03/n03_1", "n04/n04_1", "n04/n04_9"];
        let paths = names.map(|n| format!("all/{n}.jpg"));
        let images = folder(&paths.each_ref().map(|p| (p.as_str(), "x")));
        let hints = Hints { images: Some(images.path().to_owned()), splits: None };
        let listing = list(Tree::open(lists.path()).unwrap(), &hints).unwrap();
        assert!(listing.bad.is_empty(), "{:?}", listing.bad);
        assert_eq!((listing.items.len(), listing.items[0].tree), (6, 1));
    }

    #[test]
    fn wrong_columns_and_empty_cells_are_said_with_the_line() {
        for (text, expected) in [
            ("file,class\na,b\n", "line 1: expected the columns filename,label, found file,class"),
            ("filename,label\na.jpg,\n", "line 2: the filename or the label is empty"),
            ("filename,label\na.jpg,x\nb.jpg\n", "line 3"),
            ("filename,label\na.jpg,../x\n", "line 2: `../x` cannot be the name of a class"),
            ("", "expected the columns"),
        ] {
            let error = parse(text, "train.csv").unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with("train.csv"), "{error}");
        }
        assert_eq!(parse("\u{feff}Filename, LABEL\na.jpg, x\n", "t").unwrap()[0].label, "x");
    }
}
