//! EMNIST ByClass: 62 digits and letters, the novel domain of Omniglot -> EMNIST.

use std::path::{Path, PathBuf};

use super::{About, Original};
use crate::source::folder;
use crate::source::listing::Listing;
use crate::source::tree::Tree;
use crate::split::{Scheme, SplitName};
use crate::{Error, Result};

pub(super) const ABOUT: About = About {
    name: "emnist",
    what: "EMNIST ByClass: 62 digits and letters, 116,323 test images",
    get: "Get gzip.zip (540 MB) from https://www.nist.gov/itl/products-and-services/emnist-dataset and unpack it",
    give: "the folder with emnist-byclass-test-images-idx3-ubyte.gz and emnist-byclass-test-labels-idx1-ubyte.gz, or \
           the file of images of another part",
    splits: "default: even labels val (31), odd labels novel (31), as for Omniglot -> EMNIST",
};

/// The file of images: the one given, or the ByClass test part of the folder.
pub(super) fn images_file(path: &Path) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let name = "emnist-byclass-test-images-idx3-ubyte";
    let below = ["", "gzip"].map(|folder| path.join(folder));
    let candidates = below.iter().flat_map(|folder| [folder.join(format!("{name}.gz")), folder.join(name)]);
    candidates.into_iter().find(|p| p.is_file()).ok_or_else(|| Error::ImportCheck {
        dataset: ABOUT.name,
        path: path.display().to_string(),
        problem: format!("the file of images {name}.gz is not there"),
        hint: ABOUT.get,
    })
}

/// Lists and checks the two files.
pub(super) fn list(path: &Path) -> Result<Listing> {
    let mut listing = folder::list(Tree::open(&images_file(path)?)?)?;
    listing.layout = "EMNIST IDX files";
    Original::Emnist.expect(&listing, "the number of classes", listing.classes.len(), 62)?;
    listing.add_schemes(vec![even_odd(62)]);
    Ok(listing)
}

/// The rule of CloserLookFewShot's `cross_char`: even labels validation, odd labels novel.
fn even_odd(classes: usize) -> Scheme {
    Scheme::by_rule("default", classes, |label| {
        Some(if label % 2 == 0 { SplitName::Val } else { SplitName::Test })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::idx::tests::write_pair;

    #[test]
    fn all_62_labels_are_split_into_even_and_odd() {
        let dir = tempfile::tempdir().unwrap();
        let labels: Vec<u8> = (0..124).map(|i| i % 62).collect();
        write_pair(dir.path(), "emnist-byclass-test", &labels, true);
        let listing = Original::Emnist.list(dir.path(), &Default::default()).unwrap();
        assert_eq!((listing.items.len(), listing.classes[11].name.as_str()), (124, "11_B"));
        let parts = &listing.schemes[0].parts;
        assert_eq!(parts.each_ref().map(Vec::len), [0, 31, 31]);
        assert_eq!((parts[1][1].0, parts[2][1].0), (2, 3));
    }

    #[test]
    fn missing_files_and_classes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Original::Emnist.list(dir.path(), &Default::default()).unwrap_err().to_string();
        assert!(
            error.contains("emnist-byclass-test-images-idx3-ubyte.gz") && error.contains("nist.gov"),
            "{error}"
        );
        write_pair(dir.path(), "emnist-byclass-test", &[0, 1], false);
        let error = Original::Emnist.list(dir.path(), &Default::default()).unwrap_err().to_string();
        assert!(error.contains("classes should be 62, but is 2"), "{error}");
    }
}
