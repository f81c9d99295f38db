//! Omniglot: 1,623 characters of 50 alphabets, each drawn by 20 people.

use std::path::{Path, PathBuf};

use super::{About, Original};
use crate::Result;
use crate::source::listing::Listing;
use crate::source::omniglot;
use crate::source::tree::Tree;

pub(super) const ABOUT: About = About {
    name: "omniglot",
    what: "Omniglot: 1,623 characters of 50 alphabets, drawn by 20 people each",
    get: "Get images_background.zip and images_evaluation.zip (14 MB) from https://github.com/brendenlake/omniglot (python)",
    give: "the folder that holds both archives, or both unpacked",
    splits: "lake: background (964) and evaluation (659); Vinyals' lists by --splits (a folder with train.txt, val.txt, \
             test.txt, e.g. https://github.com/jakesnell/prototypical-networks, data/omniglot/splits/vinyals)",
};

const ARCHIVES: [&str; 2] = ["images_background.zip", "images_evaluation.zip"];

/// Both archives where they are, else the folder or archive itself.
pub(super) fn roots(path: &Path) -> Vec<PathBuf> {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let archives = folder.map(|f| ARCHIVES.map(|name| f.join(name)));
    let given = path.is_dir() || path.file_name().is_some_and(|n| ARCHIVES.iter().any(|a| n == *a));
    match archives {
        Some(both) if given && both.iter().all(|p| p.is_file()) => both.to_vec(),
        _ => vec![path.to_owned()],
    }
}

/// Lists and checks both parts.
pub(super) fn list(path: &Path) -> Result<Listing> {
    let trees = roots(path).iter().map(|root| Tree::open(root)).collect::<Result<Vec<_>>>()?;
    let listing = omniglot::list_trees(trees)?;
    let check = |what: &str, found, expected| Original::Omniglot.expect(&listing, what, found, expected);
    check("the number of characters", listing.classes.len(), 1623)?;
    check("the number of drawings", listing.items.len() + listing.bad.len(), 32_460)?;
    check("the number of parts (background, evaluation)", listing.schemes.len(), 1)?;
    let sizes = listing.schemes[0].parts.each_ref().map(Vec::len);
    check("the number of background characters", sizes[0], 964)?;
    check("the number of evaluation characters", sizes[2], 659)?;
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A zip with `characters` characters of `drawings` (empty) drawings.
    fn archive(folder: &Path, part: usize, characters: usize, drawings: usize) {
        let file = std::fs::File::create(folder.join(ARCHIVES[part])).unwrap();
        let mut zip = zip::ZipWriter::new(file);
        let top = ARCHIVES[part].trim_end_matches(".zip");
        for (character, drawing) in (0..characters).flat_map(|c| (0..drawings).map(move |d| (c, d))) {
            let name = format!("{top}/Alphabet_{part}/character{character:03}/{drawing:02}.png");
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(b"x").unwrap();
        }
        zip.finish().unwrap();
    }

    #[test]
    fn both_archives_together_are_complete_and_split_as_lake_did() {
        let dir = tempfile::tempdir().unwrap();
        archive(dir.path(), 0, 964, 20);
        archive(dir.path(), 1, 659, 20);
        for path in [dir.path().to_owned(), dir.path().join(ARCHIVES[1])] {
            let listing = Original::Omniglot.list(&path, &Default::default()).unwrap();
            assert_eq!((listing.classes.len(), listing.items.len()), (1623, 32_460));
            assert_eq!((listing.schemes[0].name.as_str(), listing.name.as_str()), ("lake", "omniglot"));
        }
    }

    #[test]
    fn one_archive_alone_is_not_enough() {
        let dir = tempfile::tempdir().unwrap();
        archive(dir.path(), 0, 964, 1);
        let error = Original::Omniglot.list(&dir.path().join(ARCHIVES[0]), &Default::default()).unwrap_err();
        assert!(error.to_string().contains("characters should be 1623, but is 964"), "{error}");
    }
}
