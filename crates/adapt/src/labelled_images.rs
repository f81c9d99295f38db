//! Labelled images: what a task is adapted to.

use crate::cost::{FitLimits, Shape};
use crate::error::{Error, Result};
use crate::intake::Intake;
use siskin_data::fault::{BadFile, Fault};
use siskin_data::source::listing::Listing;
use siskin_data::source::tree::MAX_FILE_BYTES;
use siskin_data::source::{self, Hints};
use siskin_data::{OnBadImage, Progress};
use siskin_methods::Features;
use siskin_model::{ImageKey, KeptFeatures, Model, View, unit};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Most bytes of the name of a class, and of a task.
const MOST_NAME: usize = 200;
/// Most bytes of the name of an example: paths are long.
const MOST_EXAMPLE_NAME: usize = 4_096;

/// A labelled image.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What it is called, e.g. its path.
    pub name: String,
    /// Its class, an index of [`LabelledImages::classes`].
    pub class: usize,
    /// What the network sees of it.
    pub view: View,
}

/// The labelled images of a task: any number of classes, any number of images each.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledImages {
    classes: Vec<String>,
    examples: Vec<Example>,
    /// What features of the examples are kept by, where their files are known.
    keys: Vec<Option<ImageKey>>,
    bad: Vec<BadFile>,
    ignored: Vec<String>,
}

impl LabelledImages {
    /// Checks that there are at least two classes with different names, and an image of each.
    pub fn new(classes: Vec<String>, examples: Vec<Example>) -> Result<LabelledImages> {
        check_count(&classes)?;
        LabelledImages::more(classes, examples)
    }

    /// More examples for a task that exists: one class is enough.
    pub fn more(classes: Vec<String>, examples: Vec<Example>) -> Result<LabelledImages> {
        check_examples(&classes, &examples.iter().map(|e| e.class).collect::<Vec<_>>())?;
        examples.iter().try_for_each(|e| check_name("example", &e.name, MOST_EXAMPLE_NAME))?;
        let keys = vec![None; examples.len()];
        Ok(LabelledImages { classes, examples, keys, bad: Vec::new(), ignored: Vec::new() })
    }

    /// The images of a folder with one folder per class (or of any other layout that `siskin data` reads). A folder of a
    /// class without an image counts as a bad image. One image is decoded at a time, and only what `model` sees of it is
    /// kept.
    pub fn read(path: &Path, on_bad: OnBadImage, model: &Model, intake: &Intake) -> Result<LabelledImages> {
        let support = LabelledImages::read_more(path, on_bad, model, intake)?;
        check_count(&support.classes)?;
        Ok(support)
    }

    /// [`LabelledImages::read`] for a task that exists: one class is enough.
    pub fn read_more(
        path: &Path,
        on_bad: OnBadImage,
        model: &Model,
        intake: &Intake,
    ) -> Result<LabelledImages> {
        let listing = source::list(path, &Hints::default())?;
        let mut ignored = listing.ignored.clone();
        for folder in without_images(path, &listing) {
            if on_bad == OnBadImage::Error {
                return Err(Error::Support(format!(
                    "the folder {folder} has no image that can be read by its name. Put one there, take it away, or leave it out by \
                     --on-bad-image skip (on_bad_image=\"skip\" in Python)"
                )));
            }
            ignored.push(folder);
        }
        let count = listing.items.len();
        Shape { classes: listing.classes.len(), examples: count }.check(&FitLimits::TERMINAL)?;
        let mut views: Vec<Option<(View, ImageKey)>> = vec![None; count];
        let mut bad = listing.bad.clone();
        for (t, tree) in listing.trees.iter().enumerate() {
            let items: Vec<usize> = (0..count).filter(|&i| listing.items[i].tree == t).collect();
            let wanted: Vec<&str> = items.iter().map(|&i| listing.items[i].path.as_str()).collect();
            tree.stream(&wanted, MAX_FILE_BYTES, &mut |index, read: std::result::Result<Vec<u8>, Fault>| {
                let seen =
                    |bytes: Vec<u8>| Ok((intake.view(model, &bytes)?, *blake3::hash(&bytes).as_bytes()));
                match read.and_then(seen) {
                    Ok(view) => views[items[index]] = Some(view),
                    Err(fault) => bad.push(BadFile { path: tree.display(wanted[index]), fault }),
                }
                true
            })?;
        }
        if let (OnBadImage::Error, Some(file)) = (on_bad, bad.first()) {
            return Err(siskin_data::Error::BadFile { file: file.clone() }.into());
        }
        let classes = listing.classes.iter().map(|c| c.name.clone()).collect();
        let (mut examples, mut keys) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (item, seen) in listing.items.into_iter().zip(views) {
            let Some((view, key)) = seen else { continue };
            examples.push(Example { name: item.name, class: item.class, view });
            keys.push(Some(key));
        }
        let support = LabelledImages::more(classes, examples)?;
        Ok(LabelledImages { bad, ignored, keys, ..support })
    }

    /// Features of the examples by `model`, as [`Model::embed`] gives them. Those of an added network are taken from the folder `cache`, as
    /// far as they are there, and new ones are put there a few at a time, so that work that is stopped goes on from there.
    pub fn features(
        &self,
        model: &Model,
        cache: Option<&Path>,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Features> {
        // A network that was trained here is small, and needs no such help. Where another process is at work in the cache, or nothing can
        // be written, all is computed.
        let cache = cache.filter(|_| model.foreign().is_some());
        let mut kept = cache.and_then(|cache| KeptFeatures::open(cache, &model.features_key()).ok());
        let known = |key: &Option<ImageKey>| kept.as_ref()?.get(key.as_ref()?);
        let known = self.keys.iter().map(|key| Some(known(key)?.into_iter().map(f64::from).collect()));
        let mut rows: Vec<Option<Vec<f64>>> = known.collect();
        let missing: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].is_none()).collect();
        progress.begin("embedding", missing.len() as u64);
        let result = missing.chunks(model.images_at_a_time()).try_for_each(|some| -> Result<()> {
            let fresh = model.raw_features(some.iter().map(|&i| &self.examples[i].view), stop)?;
            let fresh = fresh.values.chunks_exact(fresh.dim.max(1));
            let mut new: Vec<(ImageKey, Vec<f32>)> = Vec::new();
            for (&i, row) in some.iter().zip(fresh) {
                new.extend(self.keys[i].map(|key| (key, row.iter().map(|&v| v as f32).collect())));
                rows[i] = Some(row.to_vec());
            }
            progress.advance(some.len() as u64);
            Ok(kept.as_mut().map_or(Ok(()), |kept| kept.add(&new))?)
        });
        progress.end();
        result?;
        let values: Vec<f64> = rows.into_iter().flatten().flatten().collect();
        let count = self.examples.len();
        let mut features = Features { dim: values.len() / count.max(1), rows: count, values };
        if model.foreign().is_some() {
            unit(&mut features);
        }
        Ok(features)
    }

    /// The examples as features, by [`LabelledImages::features`] or [`Model::embed`].
    pub fn examples_as(&self, features: Features, model: &Model) -> crate::Examples {
        crate::Examples {
            classes: self.classes.clone(),
            names: self.examples.iter().map(|e| e.name.clone()).collect(),
            labels: self.examples.iter().map(|e| e.class).collect(),
            features,
            other_kind: model.mismatch(self.examples.iter().map(|e| &e.view.look)).is_some(),
            others: None,
        }
    }

    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The labelled images.
    pub fn examples(&self) -> &[Example] {
        &self.examples
    }

    /// Images that cannot be used.
    pub fn bad(&self) -> &[BadFile] {
        &self.bad
    }

    /// Files that are no images by their names or stand beside the classes, and folders without images.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }
}

/// Folders at the top of `root` that give no image to the listing.
fn without_images(root: &Path, listing: &Listing) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut folders: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    folders.sort();
    folders.retain(|name| listing.items.iter().all(|item| item.path.split('/').next() != Some(name)));
    folders.into_iter().map(|name| root.join(name).display().to_string()).collect()
}

/// Endings that tell what a file is, not what it is called.
const ENDINGS: [&str; 12] =
    ["zip", "tar", "tgz", "gz", "zst", "bz2", "xz", "npy", "safetensors", "csv", "tsv", "json"];

/// What to call a task made from the examples at `path`: their name, without the endings of archives, lists and arrays.
pub fn title_of(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = absolute.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut title = name.as_str();
    while let Some((stem, ending)) = title.rsplit_once('.')
        && ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
    {
        title = stem;
    }
    if title.is_empty() { "examples".into() } else { title.to_owned() }
}

/// At least two classes with different names, an example of each, and not too many.
pub(crate) fn check(classes: &[String], labels: &[usize]) -> Result<()> {
    check_count(classes)?;
    check_examples(classes, labels)
}

fn check_count(classes: &[String]) -> Result<()> {
    let given = match classes {
        [] => "no class was".to_string(),
        [one] => format!("only the class `{one}` was"),
        _ => return Ok(()),
    };
    Err(Error::Support(format!("{given} given; a task needs at least two classes to tell apart")))
}

/// Classes with different names, an example of each, and not too many.
fn check_examples(classes: &[String], labels: &[usize]) -> Result<()> {
    Shape { classes: classes.len(), examples: labels.len() }.check(&FitLimits::TERMINAL)?;
    for (c, name) in classes.iter().enumerate() {
        check_name("class", name, MOST_NAME)?;
        if name.trim().is_empty() {
            return Err(Error::Support(format!("class {} has no name", c + 1)));
        }
        if classes[..c].contains(name) {
            return Err(Error::Support(format!("two classes are called `{name}`")));
        }
        if !labels.contains(&c) {
            return Err(Error::Support(format!("the class `{name}` has no example that can be used")));
        }
    }
    match labels.iter().find(|&&label| label >= classes.len()) {
        Some(label) => Err(Error::Support(format!("there is no class number {label}"))),
        None => Ok(()),
    }
}

/// Refuses a title that cannot be shown: see [`check_name`].
pub(crate) fn check_title(title: &str) -> Result<()> {
    check_name("task", title, MOST_NAME)
}

/// Refuses a name that is too long to show, or has control characters that a terminal would obey.
fn check_name(of: &str, name: &str, most: usize) -> Result<()> {
    if name.len() > most {
        let shown: String = name.chars().take(20).collect();
        return Err(Error::Support(format!(
            "the name of the {of} `{}...` has {} bytes; at most {most} are taken",
            shown.escape_debug(),
            name.len()
        )));
    }
    match name.chars().any(char::is_control) {
        false => Ok(()),
        true => Err(Error::Support(format!(
            "the name of the {of} `{}` has control characters in it",
            name.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        dir
    }

    const GREY: &[u8] = b"P2 1 1 255 7";

    fn read(path: &Path, on_bad: OnBadImage) -> Result<LabelledImages> {
        LabelledImages::read(path, on_bad, &Model::open(crate::EMBEDDED[0].0).unwrap(), &Intake::default())
    }

    #[test]
    fn unequal_classes_are_read_and_bad_files_named() {
        let files = [("cat/1.pgm", GREY), ("dog/1.pgm", GREY), ("dog/2.pgm", GREY), ("dog/3.png", b"no")];
        let dir = folder(&files);
        let support = read(dir.path(), OnBadImage::Skip).unwrap();
        assert_eq!(support.classes(), ["cat", "dog"]);
        assert_eq!(support.examples().iter().map(|e| e.class).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(support.bad().len(), 1);
        let error = read(dir.path(), OnBadImage::Error).unwrap_err().to_string();
        assert!(error.contains("3.png"), "{error}");
    }

    #[test]
    fn a_task_is_called_after_its_examples() {
        let names = [
            ("none/my.letters.tar.gz", "my.letters"),
            ("birds/", "birds"),
            ("v1/birds.2024", "birds.2024"),
            ("x.npy", "x"),
            ("/", "examples"),
        ];
        for (path, title) in names {
            assert_eq!(title_of(Path::new(path)), title);
        }
    }

    #[test]
    fn what_makes_no_task_is_said() {
        let one = folder(&[("cat/1.pgm", GREY)]);
        let error = read(one.path(), OnBadImage::Skip).unwrap_err().to_string();
        assert!(error.contains("only the class `cat` was given"), "{error}");
        let empty = folder(&[("cat/1.pgm", GREY), ("dog/1.pgm", b"")]);
        let error = read(empty.path(), OnBadImage::Skip).unwrap_err().to_string();
        assert!(error.contains("`dog` has no example"), "{error}");
        let files = [("cat/1.pgm", GREY), ("dog/1.pgm", GREY), ("cow/1.txt", b"x"), ("stray.pgm", GREY)];
        let stray = folder(&files);
        let error = read(stray.path(), OnBadImage::Error).unwrap_err().to_string();
        assert!(error.contains("cow has no image"), "{error}");
        let support = read(stray.path(), OnBadImage::Skip).unwrap();
        let ignored: Vec<&str> = support.ignored().iter().map(|n| n.rsplit('/').next().unwrap()).collect();
        assert_eq!(ignored, ["1.txt", "stray.pgm", "cow"]);
        let phone = folder(&[("cat/1.pgm", GREY), ("dog/1.pgm", GREY), ("dog/2.HEIC", b"x")]);
        let error = read(phone.path(), OnBadImage::Error).unwrap_err().to_string();
        assert!(error.contains("2.HEIC") && error.contains("JPEG"), "{error}");
        assert!(check(&["a".into(), "a".into()], &[0, 1]).unwrap_err().to_string().contains("two classes"));
        assert!(check(&["a".into(), "b".into()], &[0, 1, 2]).is_err());
        let named = |name: &str| check(&["a".into(), name.into()], &[0, 1]).unwrap_err().to_string();
        assert!(named(&"x".repeat(201)).contains("has 201 bytes; at most 200"));
        assert!(
            named("b\u{1b}[31m").contains(r"b\u{1b}[31m` has control characters"),
            "{}",
            named("b\u{1b}[31m")
        );
        assert!(check_title("a\nb").is_err());
    }
}
