//! One folder per class (ImageFolder): `<class>/<image>`, below `images/` or not, below `train/ val/ test/` or not, with
//! the lists of the packs (`splits/`, `classes.tsv`, `splits.json`) beside it or not.

use super::listing::{Listing, Row, is_image, need_images};
use super::name_of;
use super::split_lists::{self, Known};
use super::tree::Tree;
use crate::split::SplitName;
use crate::{Error, Result};

/// Lists a tree of class folders.
pub fn list(tree: Tree) -> Result<Listing> {
    let images: Vec<&str> = tree.files.iter().map(|f| f.path.as_str()).filter(|p| is_image(p)).collect();
    let base = base_of(&tree, &images)?;
    let mut below = images.iter().filter_map(|p| p.strip_prefix(base.as_str()));
    let split_folders = below.all(|name| split_part(name).is_some());
    let mut rows = Vec::with_capacity(images.len());
    for path in &images {
        let Some(name) = path.strip_prefix(base.as_str()) else { continue };
        let (split, rest) = match split_part(name) {
            Some((split, rest)) if split_folders => (Some(split), rest),
            _ => (None, name),
        };
        let Some((class, _)) = rest.split_once('/') else { continue };
        rows.push(Row {
            class: class.to_owned(),
            domain: None,
            tree: 0,
            path: (*path).to_owned(),
            name: name.to_owned(),
            split,
        });
    }
    let root = root_of(&base).to_owned();
    let mut listing =
        need_images(Listing::assemble(name_of(&tree.root), "one folder per class", vec![tree], rows))?;
    let domains = split_lists::domains(&listing.trees[0], &root)?;
    for class in &mut listing.classes {
        if let Some(domain) = domains.get(&class.name) {
            class.domain.clone_from(domain);
        }
    }
    let known = Known::new(&listing.name, listing.classes.iter().map(|c| c.name.as_str()));
    let schemes = split_lists::read_beside(&listing.trees[0], &root, &known)?;
    listing.add_schemes(schemes);
    Ok(listing)
}

/// The folder above `images/`, where lists lie: `cub/images/` gives `cub/`, `birds/` gives `birds/`.
fn root_of(base: &str) -> &str {
    base.strip_suffix("images/").unwrap_or(base)
}

/// What stands before the class in each path: `` or `cub/images/`. An `images` folder is it where there is one, so
/// that a stray picture beside it does no harm; else the folders that all images share.
fn base_of(tree: &Tree, images: &[&str]) -> Result<String> {
    let Some(first) = images.first() else {
        if tree.refused.is_empty() {
            let found = match tree.files.len() {
                0 => "there is no file in it".to_owned(),
                files => format!("none of its {files} files is an image"),
            };
            let path = tree.root.display().to_string();
            return Err(Error::UnknownLayout { path, found, hint: super::LAYOUT_HINT });
        }
        return Ok(String::new());
    };
    for prefix in ["images/".to_owned(), format!("{}/images/", first.split('/').next().unwrap_or_default())] {
        let deep = |p: &&&str| p.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.contains('/'));
        if images.iter().filter(deep).count() * 2 > images.len() {
            return Ok(prefix);
        }
    }
    let folder = |p: &str| p.rfind('/').map_or("", |at| &p[..=at]).to_owned();
    let mut base = folder(first);
    for path in images {
        while !path.starts_with(&base) {
            base = folder(base.trim_end_matches('/'));
        }
    }
    // All images in one folder: it is the only class, unless it is the root.
    if images.iter().all(|p| folder(p) == base) {
        if base.is_empty() {
            let found = format!("its {} images lie in no class folder", images.len());
            let path = tree.root.display().to_string();
            return Err(Error::UnknownLayout { path, found, hint: super::LAYOUT_HINT });
        }
        base = folder(base.trim_end_matches('/'));
    }
    Ok(base)
}

/// `train/cat/1.png` is `cat/1.png` of the training split.
fn split_part(name: &str) -> Option<(SplitName, &str)> {
    let (first, rest) = name.split_once('/')?;
    let split = SplitName::parse(first)?;
    rest.contains('/').then_some((split, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn listed(paths: &[&str]) -> Result<Listing> {
        let dir = tempfile::tempdir().unwrap();
        for path in paths {
            let path = dir.path().join("birds").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        }
        list(Tree::open(&dir.path().join("birds")).unwrap())
    }

    fn names(listing: &Listing) -> (Vec<&str>, Vec<&str>) {
        let classes = listing.classes.iter().map(|c| c.name.as_str()).collect();
        (classes, listing.items.iter().map(|i| i.name.as_str()).collect())
    }

    #[test]
    fn a_folder_a_class() {
        let listing = listed(&["owl/1.jpg", "owl/2.JPG", "auk/x/1.png", "auk/Thumbs.db"]).unwrap();
        assert_eq!(names(&listing), (vec!["auk", "owl"], vec!["auk/x/1.png", "owl/1.jpg", "owl/2.JPG"]));
        assert_eq!((listing.name.as_str(), listing.ignored.len()), ("birds", 1));
        assert!(listing.schemes.is_empty());
    }

    #[test]
    fn a_wrapping_folder_and_images_are_looked_through() {
        let flat = listed(&["owl/1.jpg", "auk/1.jpg"]).unwrap();
        for wrapped in [
            &["pack/images/owl/1.jpg", "pack/images/auk/1.jpg", "pack/SOURCE.txt"][..],
            &["images/owl/1.jpg", "images/auk/1.jpg", "logo.png"],
            &["deep/er/owl/1.jpg", "deep/er/auk/1.jpg"],
        ] {
            assert_eq!(names(&listed(wrapped).unwrap()), names(&flat), "{wrapped:?}");
        }
    }

    #[test]
    fn a_single_class_is_still_a_class() {
        assert_eq!(names(&listed(&["owl/1.jpg", "owl/2.jpg"]).unwrap()).0, ["owl"]);
    }

    #[test]
    fn split_folders_make_a_split() {
        let listing = listed(&["train/a/1.png", "val/b/1.png", "test/c/1.png", "test/a/2.png"]).unwrap();
        assert_eq!(names(&listing).0, ["a", "b", "c"]);
        let parts = &listing.schemes[0].parts;
        assert_eq!(parts[0], [(0, Some(vec![1]))], "the class a is in two splits, by image");
        assert_eq!((parts[1].len(), parts[2].len()), (1, 2));
    }

    #[test]
    fn no_image_and_no_class_folder_are_told_apart() {
        let error = listed(&["readme.txt"]).unwrap_err().to_string();
        assert!(error.contains("none of its 1 files is an image"), "{error}");
        let error = listed(&["1.png", "2.png"]).unwrap_err().to_string();
        assert!(error.contains("its 2 images lie in no class folder"), "{error}");
        assert!(Tree::open(Path::new("no-such-place")).is_err());
    }
}
