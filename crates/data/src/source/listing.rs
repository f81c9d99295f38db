//! What a source holds, before any image is read: classes, files, splits, and what is wrong so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::tree::Tree;
use crate::fault::{BadFile, Fault};
use crate::split::{Scheme, SplitName};
use crate::{Error, Result};

/// Endings of the names of image files. What a file really holds is found out when it is decoded: the last four are images
/// that cannot be read, and nobody wants them passed over in silence.
pub(crate) const IMAGE_EXTENSIONS: [&str; 16] = [
    "jpg", "jpeg", "jpe", "png", "gif", "bmp", "webp", "tif", "tiff", "pgm", "ppm", "pnm", "heic", "heif",
    "avif", "jxl",
];

/// Whether a file's name ends as an image's does.
pub fn is_image(path: &str) -> bool {
    let extension = path.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    extension.is_some_and(|e| IMAGE_EXTENSIONS.contains(&e.as_str()))
}

/// A class of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedClass {
    /// Its name.
    pub name: String,
    /// Its domain.
    pub domain: String,
}

/// An image of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Index of its class.
    pub class: usize,
    /// Index of the tree that holds it.
    pub tree: usize,
    /// Path within the tree.
    pub path: String,
    /// Name in the data set: the same for a folder and for an archive made of it.
    pub name: String,
}

/// What a source holds, before any image is read.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Name of the data set.
    pub name: String,
    /// How the files are laid out, in words.
    pub layout: &'static str,
    /// Where the files are.
    pub trees: Vec<Tree>,
    /// Classes, sorted by name.
    pub classes: Vec<ListedClass>,
    /// Images, sorted by class and name.
    pub items: Vec<Item>,
    /// The splits that come with the source; complete ones first.
    pub schemes: Vec<Scheme>,
    /// Files that cannot be used.
    pub bad: Vec<BadFile>,
    /// Files that are not taken for images.
    pub ignored: Vec<String>,
}

/// An image as a layout finds it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub class: String,
    pub domain: Option<String>,
    pub tree: usize,
    pub path: String,
    pub name: String,
    pub split: Option<SplitName>,
}

impl Listing {
    /// Sorts rows into classes. Rows that carry a split make the scheme `default`.
    pub(crate) fn assemble(name: String, layout: &'static str, trees: Vec<Tree>, mut rows: Vec<Row>) -> Self {
        rows.sort_by(|a, b| (&a.class, &a.name).cmp(&(&b.class, &b.name)));
        rows.dedup_by(|a, b| a.class == b.class && a.name == b.name && a.split == b.split);
        let mut classes: Vec<ListedClass> = Vec::new();
        let mut items = Vec::with_capacity(rows.len());
        let mut parts: [BTreeMap<usize, Vec<usize>>; 3] = Default::default();
        let mut counts: Vec<usize> = Vec::new();
        for row in rows {
            if classes.last().is_none_or(|last| last.name != row.class) {
                let domain = row.domain.unwrap_or_else(|| name.clone());
                classes.push(ListedClass { name: row.class, domain });
                counts.push(0);
            }
            let class = classes.len() - 1;
            if let Some(split) = row.split {
                parts[split.index()].entry(class).or_default().push(items.len());
            }
            counts[class] += 1;
            items.push(Item { class, tree: row.tree, path: row.path, name: row.name });
        }
        let mut schemes = Vec::new();
        if parts.iter().any(|part| !part.is_empty()) {
            let parts = parts.map(|part| {
                part.into_iter()
                    .map(|(class, members)| (class, (members.len() < counts[class]).then_some(members)))
                    .collect()
            });
            schemes.push(Scheme { name: "default".into(), parts });
        }
        let bad = trees.iter().flat_map(|tree| tree.refused.iter().cloned()).collect();
        let used: BTreeSet<(usize, &str)> = items.iter().map(|i| (i.tree, i.path.as_str())).collect();
        let unused = |(t, tree): (usize, &Tree)| {
            let unused = tree.files.iter().filter(|f| !used.contains(&(t, f.path.as_str())));
            unused.map(|f| tree.display(&f.path)).collect::<Vec<_>>()
        };
        let ignored = trees.iter().enumerate().flat_map(unused).collect();
        Listing { name, layout, trees, classes, items, schemes, bad, ignored }
    }

    /// Adds splits; complete ones go to the front, and of those the first is the one used unless another is named.
    pub(crate) fn add_schemes(&mut self, schemes: Vec<Scheme>) {
        add_schemes(&mut self.schemes, schemes);
    }
}

/// New splits take the place of old ones of the same name; complete ones come first.
pub(crate) fn add_schemes(schemes: &mut Vec<Scheme>, new: Vec<Scheme>) {
    schemes.retain(|old| new.iter().all(|n| n.name != old.name));
    schemes.extend(new);
    schemes.sort_by_key(|s| (s.parts.iter().any(Vec::is_empty), s.name.clone()));
}

/// Finds the file that a list means, wherever its images have been moved to: of all files that bear the name, the one
/// that shares most folders with the listed path, counted from the end.
pub(crate) struct Finder<'a> {
    tree: &'a Tree,
    by_name: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(tree: &'a Tree) -> Self {
        let mut by_name: HashMap<&str, Vec<&str>> = HashMap::new();
        for file in &tree.files {
            let name = file.path.rsplit('/').next().unwrap_or(&file.path);
            by_name.entry(name).or_default().push(&file.path);
        }
        Finder { tree, by_name }
    }

    /// The path within the tree, or what to say of entry `line` of `list`.
    pub(crate) fn find(
        &self,
        listed: &str,
        list: &str,
        line: usize,
    ) -> std::result::Result<&'a str, BadFile> {
        let parts: Vec<&str> =
            listed.split(['/', '\\']).rev().filter(|p| !p.is_empty() && *p != ".").collect();
        let candidates = parts.first().and_then(|name| self.by_name.get(name)).map_or(&[][..], Vec::as_slice);
        let shared = |path: &str| path.rsplit('/').zip(&parts).take_while(|(a, b)| a == *b).count();
        let best = candidates.iter().map(|path| shared(path)).max().unwrap_or(0);
        let mut found = candidates.iter().filter(|path| shared(path) == best);
        match (found.next(), found.next()) {
            (Some(path), None) => Ok(path),
            (Some(a), Some(b)) => Err(BadFile {
                path: listed.to_owned(),
                fault: Fault::Ambiguous {
                    list: list.to_owned(),
                    line,
                    first: self.tree.display(a),
                    second: self.tree.display(b),
                },
            }),
            _ => Err(BadFile {
                path: listed.to_owned(),
                fault: Fault::Missing { list: list.to_owned(), line },
            }),
        }
    }
}

/// An error unless there is at least one image.
pub(crate) fn need_images(listing: Listing) -> Result<Listing> {
    if !listing.items.is_empty() {
        return Ok(listing);
    }
    let path = listing.trees.first().map(|t| t.root.display().to_string()).unwrap_or_default();
    if let Some(first) = listing.bad.first() {
        return Err(Error::BadFile { file: first.clone() });
    }
    Err(Error::UnknownLayout { path, found: "it has no image".into(), hint: super::LAYOUT_HINT })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tree::{TreeFile, TreeKind};

    fn tree(paths: &[&str]) -> Tree {
        let files = paths.iter().map(|p| TreeFile { path: (*p).into(), bytes: 1, modified: 0 });
        Tree { root: "r".into(), kind: TreeKind::Folder, files: files.collect(), refused: Vec::new() }
    }

    #[test]
    fn a_moved_file_is_found_by_the_folders_it_shares() {
        let tree = tree(&["images/a/1.jpg", "images/b/1.jpg", "images/b/2.jpg"]);
        let finder = Finder::new(&tree);
        assert_eq!(finder.find("/home/x/cub/b/1.jpg", "l", 1).unwrap(), "images/b/1.jpg");
        assert_eq!(finder.find("2.jpg", "l", 1).unwrap(), "images/b/2.jpg");
        let missing = finder.find("b/3.jpg", "base.json", 7).unwrap_err();
        assert_eq!(missing.fault, Fault::Missing { list: "base.json".into(), line: 7 });
        assert!(matches!(finder.find("1.jpg", "l", 1).unwrap_err().fault, Fault::Ambiguous { .. }));
    }

    #[test]
    fn rows_become_sorted_classes_and_a_scheme() {
        let row = |class: &str, name: &str, split| Row {
            class: class.into(),
            domain: None,
            tree: 0,
            path: name.into(),
            name: name.into(),
            split,
        };
        let rows = vec![
            row("b", "train/b/1.png", Some(SplitName::Train)),
            row("a", "test/a/2.png", Some(SplitName::Test)),
            row("a", "train/a/1.png", Some(SplitName::Train)),
        ];
        let paths = ["notes.txt", "test/a/2.png", "train/a/1.png", "train/b/1.png"];
        let listing = Listing::assemble("d".into(), "l", vec![tree(&paths)], rows);
        assert_eq!(listing.classes.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listing.items[0].path, "test/a/2.png");
        let scheme = &listing.schemes[0];
        assert_eq!(scheme.parts[0], [(0, Some(vec![1])), (1, None)], "a is split by image, b is whole");
        assert_eq!(scheme.parts[2], [(0, Some(vec![0]))]);
        assert_eq!(listing.ignored.len(), 1, "{:?}", listing.ignored);
    }
}
