//! CUB-200-2011: 200 kinds of birds, 11,788 photographs.

use std::path::Path;

use super::{About, Original};
use crate::Result;
use crate::source::folder;
use crate::source::listing::Listing;
use crate::source::tree::Tree;
use crate::split::{Scheme, SplitName};

pub(super) const ABOUT: About = About {
    name: "cub",
    what: "CUB-200-2011: 200 kinds of birds, 11,788 photographs",
    get: "Get CUB_200_2011.tgz (1.1 GB) from https://data.caltech.edu/records/65de6-vp158",
    give: "CUB_200_2011.tgz, or the folder it unpacks to",
    splits: "default: by the index i of the sorted class, base i%2=0 (100), val i%4=1 (50), novel i%4=3 (50)",
};

const CLASSES: usize = 200;
const IMAGES: usize = 11_788;

/// Lists and checks the archive or folder.
pub(super) fn list(path: &Path) -> Result<Listing> {
    let mut listing = folder::list(Tree::open(path)?)?;
    listing.layout = "CUB-200-2011";
    Original::Cub.expect(&listing, "the number of classes", listing.classes.len(), CLASSES)?;
    Original::Cub.expect(
        &listing,
        "the number of images",
        listing.items.len() + listing.bad.len(),
        IMAGES,
    )?;
    let numbered = listing.classes.iter().enumerate();
    let misnamed = numbered.filter(|(i, class)| !class.name.starts_with(&format!("{:03}.", i + 1))).count();
    Original::Cub.expect(
        &listing,
        "the number of classes not named like 001.Black_footed_Albatross",
        misnamed,
        0,
    )?;
    listing.add_schemes(vec![closer_look(CLASSES)]);
    Ok(listing)
}

/// The rule of CloserLookFewShot, which the papers use.
fn closer_look(classes: usize) -> Scheme {
    Scheme::by_rule("default", classes, |i| match i % 4 {
        0 | 2 => Some(SplitName::Train),
        1 => Some(SplitName::Val),
        _ => Some(SplitName::Test),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the classes and as many (empty) images as CUB has.
    fn fake(images: usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder =
            |class: usize| dir.path().join(format!("CUB_200_2011/images/{:03}.Bird_{class}", class + 1));
        (0..CLASSES).for_each(|class| std::fs::create_dir_all(folder(class)).unwrap());
        for image in 0..images {
            std::fs::File::create(folder(image % CLASSES).join(format!("{image}.jpg"))).unwrap();
        }
        std::fs::write(dir.path().join("CUB_200_2011/images.txt"), "").unwrap();
        dir
    }

    #[test]
    fn the_complete_set_is_accepted_and_split_by_the_rule() {
        let dir = fake(IMAGES);
        let listing = Original::Cub.list(dir.path(), &Default::default()).unwrap();
        assert_eq!((listing.name.as_str(), listing.items.len()), ("cub", IMAGES));
        assert_eq!(listing.schemes[0].parts.each_ref().map(Vec::len), [100, 50, 50]);
        let first: Vec<_> = listing.schemes[0].parts.iter().map(|p| p[0].0).collect();
        assert_eq!(first, [0, 1, 3]);
    }

    #[test]
    fn an_incomplete_set_is_refused_with_counts_and_a_place_to_get_it() {
        let dir = fake(IMAGES - 1);
        let error = Original::Cub.list(dir.path(), &Default::default()).unwrap_err().to_string();
        assert!(error.contains("images should be 11788, but is 11787"), "{error}");
        assert!(error.contains("https://data.caltech.edu"), "{error}");
    }
}
