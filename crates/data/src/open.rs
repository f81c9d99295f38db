//! From what a person calls a data set to the data set: a path, or a name it was imported under, or `glyphs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::{Cache, Record, build, pack};
use crate::fault::{BadFile, OnBadImage};
use crate::import::Original;
use crate::nearest::nearest;
use crate::progress::Progress;
use crate::source::listing::{Listing, add_schemes};
use crate::source::split_lists::{self, Known};
use crate::source::tree::Tree;
use crate::source::{self, Hints, embeddings, glyphs};
use crate::split::{Items, Scheme, SplitName, Splits};
use crate::{Dataset, Error, Result};

/// The shorter side of an image in the cache, at most, unless said otherwise: twice the 84 pixels of the usual networks.
pub const SHORTER_SIDE: u32 = 168;

/// Where a data set comes from. It is what an import remembers under a name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Source {
    /// Folder, archive, list or file of vectors.
    pub path: PathBuf,
    /// Read as this original download, which is checked to be complete; else whatever layout is found.
    pub original: Option<Original>,
    /// What was said beyond the path.
    pub hints: Hints,
    /// Name of the data set; else it is named after its path.
    pub name: Option<String>,
}

impl Source {
    /// The data set at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Source { path: path.into(), original: None, hints: Hints::default(), name: None }
    }

    /// Lists what is there; reads no image.
    pub fn list(&self) -> Result<Listing> {
        match self.original {
            Some(original) => original.list(&self.path, &self.hints),
            None => source::list(&self.path, &self.hints),
        }
    }

    /// What changes whenever the files may have changed.
    fn stamp(&self, shorter_side: Option<u32>) -> Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        let options = (pack::VERSION, shorter_side, self.original);
        hasher.update(format!("{options:?}").as_bytes());
        let mut roots = match self.original {
            Some(original) => original.roots(&self.path)?,
            None if self.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) => {
                hasher.update(self.path.as_os_str().as_encoded_bytes());
                vec![
                    self.path
                        .parent()
                        .filter(|p| !p.as_os_str().is_empty())
                        .unwrap_or(Path::new("."))
                        .to_owned(),
                ]
            }
            None => vec![self.path.clone()],
        };
        roots.extend(self.hints.images.clone());
        for root in roots {
            hasher.update(Tree::stamp(&root)?.as_bytes());
        }
        Ok(hasher.finalize())
    }
}

/// How to open data sets.
#[derive(Clone, Copy)]
pub struct Opener<'a> {
    /// Where packs are kept.
    pub cache: &'a Cache,
    /// What to do about bad images.
    pub on_bad: OnBadImage,
    /// Images are made smaller to have at most this shorter side; `None` keeps every pixel.
    pub shorter_side: Option<u32>,
    /// Whom to tell how far it is.
    pub progress: &'a dyn Progress,
}

/// A data set that is open, with all that is known of it.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The images or vectors.
    pub items: Items,
    /// The splits that came with it; the first is used unless another is named.
    pub schemes: Vec<Scheme>,
    /// The layout it was found in, in words.
    pub layout: String,
    /// Files that were left out.
    pub bad: Vec<BadFile>,
    /// Files that were not taken for images.
    pub ignored: Vec<String>,
    /// Whether it came from the cache; else it was just read.
    pub cached: bool,
    /// Where it lies; nowhere if it is drawn on the spot.
    pub from: Option<PathBuf>,
}

impl Opener<'_> {
    /// Opens what `text` means: `glyphs`, a name that was imported, or a path.
    pub fn open_named(&self, text: &str) -> Result<Opened> {
        if text == "glyphs" { Opened::glyphs() } else { self.open(&self.cache.resolve(text)?) }
    }

    /// Opens a data set: from the cache if its files have not changed since, else by reading all of them.
    pub fn open(&self, source: &Source) -> Result<Opened> {
        if embeddings::is_embeddings(&source.path) {
            return self.open_embeddings(source);
        }
        let stamp = source.stamp(self.shorter_side)?;
        if let Some(found) = self.look_up(source, &stamp)? {
            return Ok(found);
        }
        let _lock = self.cache.lock(self.progress)?;
        // Whoever held the lock may have read the same files.
        match self.look_up(source, &stamp)? {
            Some(found) => Ok(found),
            None => self.read_with(source, &stamp),
        }
    }

    /// The data set from the cache, if it is there and whole.
    fn look_up(&self, source: &Source, stamp: &blake3::Hash) -> Result<Option<Opened>> {
        let Some(record) = self.cache.record(stamp) else { return Ok(None) };
        match self.open_pack(source, &record) {
            Ok(data) => self.finish(source, record, Items::Images(Arc::new(data)), true).map(Some),
            Err(e) => {
                self.progress.note(&format!("{e}. It is made anew."));
                Ok(None)
            }
        }
    }

    /// Reads all files anew, whatever the cache holds, and stores the result.
    pub fn read(&self, source: &Source) -> Result<Opened> {
        if embeddings::is_embeddings(&source.path) {
            return self.open_embeddings(source);
        }
        let _lock = self.cache.lock(self.progress)?;
        self.read_with(source, &source.stamp(self.shorter_side)?)
    }

    fn read_with(&self, source: &Source, stamp: &blake3::Hash) -> Result<Opened> {
        let listing = source.list()?;
        let record = build::build(listing, self.shorter_side, self.on_bad, self.cache, self.progress)?;
        self.cache.remember(stamp, &record)?;
        let data = self.open_pack(source, &record)?;
        self.finish(source, record, Items::Images(Arc::new(data)), false)
    }

    /// The pack of a record, under the name that is asked for.
    fn open_pack(&self, source: &Source, record: &Record) -> Result<Dataset> {
        pack::open(&self.cache.pack_path(record), source.name.as_deref().unwrap_or(&record.name))
    }

    fn finish(&self, source: &Source, record: Record, items: Items, cached: bool) -> Result<Opened> {
        if let (OnBadImage::Error, Some(first)) = (self.on_bad, record.bad.first()) {
            return Err(Error::BadFile { file: first.clone() });
        }
        let Record { mut schemes, layout, bad, ignored, .. } = record;
        add_hinted(&mut schemes, source, &items)?;
        Ok(Opened { items, schemes, layout, bad, ignored, cached, from: Some(source.path.clone()) })
    }

    fn open_embeddings(&self, source: &Source) -> Result<Opened> {
        let mut data = embeddings::read(&source.path)?;
        if let Some(name) = &source.name {
            data.rename(name);
        }
        let items = Items::Embeddings(Arc::new(data));
        let mut schemes = Vec::new();
        add_hinted(&mut schemes, source, &items)?;
        let layout = "vectors and labels".to_owned();
        let from = Some(source.path.clone());
        Ok(Opened { items, schemes, layout, bad: Vec::new(), ignored: Vec::new(), cached: false, from })
    }
}

/// Adds the splits a person named beyond those of the source.
fn add_hinted(schemes: &mut Vec<Scheme>, source: &Source, items: &Items) -> Result<()> {
    if let Some(path) = &source.hints.splits {
        let known = Known::new(items.name(), items.classes().iter().map(|c| c.name.as_str()));
        add_schemes(schemes, split_lists::read_path(path, &known)?);
    }
    Ok(())
}

impl Opened {
    /// The characters drawn on the spot, with their fixed split.
    pub fn glyphs() -> Result<Self> {
        let data = Arc::new(glyphs::dataset(glyphs::SEED)?);
        let splits = glyphs::splits(data.clone());
        let part = |name| splits.get(name).classes.iter().map(|m| (m.class, None)).collect();
        let scheme = Scheme { name: "default".into(), parts: SplitName::ALL.map(part) };
        Ok(Opened {
            items: Items::Images(data),
            schemes: vec![scheme],
            layout: "drawn by a seeded stroke model".into(),
            bad: Vec::new(),
            ignored: Vec::new(),
            cached: false,
            from: None,
        })
    }

    /// The split called `name`, or the first one.
    pub fn splits(&self, name: Option<&str>) -> Result<Splits> {
        let scheme = match name {
            _ if self.schemes.is_empty() => {
                let (from, classes) = (self.from.clone(), self.items.classes().len());
                return Err(Error::NoSplit { dataset: self.items.name().to_owned(), from, classes });
            }
            Some(name) => self.schemes.iter().find(|s| s.name == name),
            None => self.schemes.first(),
        };
        let scheme = scheme.ok_or_else(|| Error::UnknownSplit {
            dataset: self.items.name().to_owned(),
            name: name.unwrap_or("default").to_owned(),
            known: self.schemes.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", "),
        })?;
        Ok(scheme.apply(&self.items))
    }

    /// With each class turned by 90, 180 and 270 degrees as three classes more, in the same split.
    /// Vectors cannot be turned and stay as they are.
    pub fn with_rotations(&self) -> Result<Self> {
        let Items::Images(data) = &self.items else { return Ok(self.clone()) };
        let turn = |scheme: &Scheme| scheme.with_rotations(data.classes.len(), data.len());
        Ok(Opened {
            items: Items::Images(Arc::new(data.with_rotations()?)),
            schemes: self.schemes.iter().map(turn).collect(),
            ..self.clone()
        })
    }
}

impl Cache {
    /// The source that was imported under `name`.
    pub fn named(&self, name: &str) -> Option<Source> {
        let plain = !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
        plain.then(|| self.read_json(&self.name_path(name)))?
    }

    /// All names that data sets were imported under, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder().join("names"));
        let name = |e: std::io::Result<std::fs::DirEntry>| {
            e.ok()?.file_name().to_str()?.strip_suffix(".json").map(str::to_owned)
        };
        let mut names: Vec<String> = entries.map(|e| e.filter_map(name).collect()).unwrap_or_default();
        names.sort();
        names
    }

    /// Remembers a source under its name, so that it can be opened by it from anywhere.
    pub fn remember_name(&self, name: &str, source: &Source) -> Result<()> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let hints = Hints {
            images: source.hints.images.as_deref().map(absolute),
            splits: source.hints.splits.as_deref().map(absolute),
        };
        let stored = Source {
            path: absolute(&source.path),
            original: source.original,
            hints,
            name: Some(name.to_owned()),
        };
        self.room("names")?;
        self.store_json(&self.name_path(name), &stored)
    }

    fn name_path(&self, name: &str) -> PathBuf {
        self.folder().join("names").join(format!("{name}.json"))
    }

    /// What `text` means: a name, or else a path. `glyphs` is not a source of files; ask for it first.
    pub fn resolve(&self, text: &str) -> Result<Source> {
        if let Some(source) = self.named(text) {
            return Ok(source);
        }
        if Path::new(text).exists() {
            return Ok(Source::at(text));
        }
        let names = self.names();
        let known = names.iter().map(String::as_str).chain(["glyphs"]);
        Err(Error::UnknownData { name: text.to_owned(), nearest: nearest(text, known) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    #[test]
    fn names_are_remembered_and_near_misses_are_met() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().join("cache"));
        std::fs::create_dir(dir.path().join("birds")).unwrap();
        cache.remember_name("my-birds", &Source::at(dir.path().join("birds"))).unwrap();
        assert_eq!(cache.names(), ["my-birds"]);
        let found = cache.resolve("my-birds").unwrap();
        assert_eq!((found.name.as_deref(), found.path), (Some("my-birds"), dir.path().join("birds")));
        let error = cache.resolve("my-brids").unwrap_err().to_string();
        assert!(error.contains("did you mean my-birds?"), "{error}");
        let error = cache.resolve("glyhps").unwrap_err().to_string();
        assert!(error.contains("did you mean glyphs?"), "{error}");
        assert!(cache.named("../my-birds").is_none(), "a name leads nowhere else");
    }

    #[test]
    fn glyphs_need_no_file_and_a_wrong_split_is_met_with_the_right_ones() {
        let cache = Cache::new("never made");
        let opener =
            Opener { cache: &cache, on_bad: OnBadImage::Error, shorter_side: None, progress: &Silent };
        let opened = opener.open_named("glyphs").unwrap();
        let sizes = SplitName::ALL.map(|name| opened.splits(None).unwrap().get(name).classes.len());
        assert_eq!(sizes.iter().sum::<usize>(), opened.items.classes().len());
        let error = opened.splits(Some("vinyals")).unwrap_err().to_string();
        assert!(error.contains("no split called vinyals; it has default"), "{error}");
        let turned = opened.with_rotations().unwrap();
        assert_eq!(turned.splits(None).unwrap().test.classes.len(), 4 * sizes[2]);
        assert!(!std::path::Path::new("never made").exists());
    }
}
