//! mini-ImageNet: 100 classes of ImageNet with 600 images each, split 64/16/20 by Ravi and Larochelle.

use std::path::Path;

use super::{About, Original};
use crate::Result;
use crate::source::listing::Listing;
use crate::source::{self, Hints};

pub(super) const ABOUT: About = About {
    name: "mini-imagenet",
    what: "mini-ImageNet: 100 classes of ImageNet, 600 images each",
    get: "Get train.csv, val.csv and test.csv from https://github.com/twitter-research/meta-learning-lstm (data/miniImagenet), \
          and the images from ImageNet (ILSVRC 2012) under its terms",
    give: "the folder with train.csv, val.csv, test.csv and the images (or --images for theirs); or a folder with \
           train/ val/ test/ of class folders",
    splits: "default: the lists' own, 64 base, 16 val, 20 novel",
};

/// Lists and checks a folder or archive, by CSV or by class folders.
pub(super) fn list(path: &Path, hints: &Hints) -> Result<Listing> {
    let listing = source::list(path, hints)?;
    let check = |what: &str, found, expected| Original::MiniImagenet.expect(&listing, what, found, expected);
    check("the number of classes", listing.classes.len(), 100)?;
    check("the number of images", listing.items.len() + listing.bad.len(), 60_000)?;
    check("the number of splits (train, val, test)", listing.schemes.len(), 1)?;
    let sizes = listing.schemes[0].parts.each_ref().map(Vec::len);
    for (name, found, expected) in
        [("training", sizes[0], 64), ("validation", sizes[1], 16), ("test", sizes[2], 20)]
    {
        check(&format!("the number of {name} classes"), found, expected)?;
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn fake(per_class: usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("images")).unwrap();
        for (list, classes) in [("train.csv", 0..64), ("val.csv", 64..80), ("test.csv", 80..100)] {
            let mut text = "filename,label\n".to_owned();
            for (class, image) in classes.flat_map(|c| (0..per_class).map(move |i| (c, i))) {
                let name = format!("n{class:08}{image:08}.jpg");
                std::fs::File::create(dir.path().join("images").join(&name)).unwrap();
                writeln!(text, "{name},n{class:08}").unwrap();
            }
            std::fs::write(dir.path().join(list), text).unwrap();
        }
        dir
    }

    #[test]
    fn lists_and_images_make_64_16_20() {
        let dir = fake(600);
        let listing = Original::MiniImagenet.list(dir.path(), &Hints::default()).unwrap();
        assert_eq!((listing.name.as_str(), listing.items.len()), ("mini-imagenet", 60_000));
    }

    #[test]
    fn an_incomplete_set_is_refused() {
        let dir = fake(3);
        let error = Original::MiniImagenet.list(dir.path(), &Hints::default()).unwrap_err().to_string();
        assert!(error.contains("the number of images should be 60000, but is 300"), "{error}");
        assert!(error.contains("https://github.com/twitter-research"), "{error}");
    }
}
