//! The arguments that say which data set is meant and how to read it, shared by all commands of `siskin data`.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use siskin_data::split::SplitName;
use siskin_data::{Cache, OnBadImage, Opened, Opener, Source, Split};

use super::progress::Bar;

/// Where decoded images are kept.
#[derive(clap::Args)]
pub(crate) struct CacheArgs {
    /// Folder for decoded images and imported names [default: the cache folder of this system]
    #[arg(long, value_name = "FOLDER", env = "SISKIN_CACHE")]
    cache: Option<PathBuf>,
}

impl CacheArgs {
    /// The cache.
    pub(crate) fn open(&self) -> anyhow::Result<Cache> {
        let folder = self.cache.clone().or_else(Cache::default_folder);
        Ok(Cache::new(
            folder.context("This system names no folder for caches. Give one with --cache FOLDER.")?,
        ))
    }
}

/// What to do about bad images.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum OnBad {
    /// Leave them out and say so.
    Skip,
    /// Stop at the first.
    Error,
}

/// How to read images.
#[derive(clap::Args)]
pub(crate) struct ReadArgs {
    /// What to do about an image that cannot be read
    #[arg(long, value_enum, default_value = "error", value_name = "POLICY")]
    pub on_bad_image: OnBad,
    /// Keep images at most this large: pixels of the shorter side; 0 keeps every pixel
    #[arg(long, value_name = "PIXELS", default_value_t = siskin_data::open::SHORTER_SIDE)]
    pub shorter_side: u32,
    #[command(flatten)]
    pub cache: CacheArgs,
}

impl ReadArgs {
    /// Calls `work` with an opener that shows its progress.
    pub(crate) fn with_opener<T, E>(
        &self,
        on_bad: OnBadImage,
        work: impl FnOnce(&Opener<'_>) -> Result<T, E>,
    ) -> anyhow::Result<T>
    where
        anyhow::Error: From<E>,
    {
        let cache = self.cache.open()?;
        let progress = Bar::default();
        let shorter_side = Some(self.shorter_side).filter(|side| *side > 0);
        Ok(work(&Opener { cache: &cache, on_bad, shorter_side, progress: &progress })?)
    }

    /// These arguments as words of a command line that may be given anywhere.
    pub(crate) fn words(&self) -> anyhow::Result<Vec<String>> {
        let policy = match self.on_bad_image {
            OnBad::Skip => "skip",
            OnBad::Error => "error",
        };
        let side = self.shorter_side.to_string();
        let mut words = vec!["--on-bad-image".into(), policy.into(), "--shorter-side".into(), side];
        if let Some(cache) = &self.cache.cache {
            let cache = std::path::absolute(cache).context("cannot say where the cache is")?;
            words.extend(["--cache".into(), cache.display().to_string()]);
        }
        Ok(words)
    }

    /// The policy.
    pub(crate) fn on_bad(&self) -> OnBadImage {
        match self.on_bad_image {
            OnBad::Skip => OnBadImage::Skip,
            OnBad::Error => OnBadImage::Error,
        }
    }
}

/// Which data set.
#[derive(clap::Args)]
pub(crate) struct DataArgs {
    /// A folder, an archive, a list, a file of vectors, an imported name, or `glyphs`
    #[arg(long, value_name = "PATH|NAME", default_value = "glyphs")]
    pub data: String,
    /// Where the images of a list (JSON or CSV) lie
    #[arg(long, value_name = "PATH")]
    pub images: Option<PathBuf>,
    /// Which class is in which split: a JSON file, a table, or a folder of text lists
    #[arg(long, value_name = "PATH")]
    pub splits: Option<PathBuf>,
    /// Add each class turned by 90, 180 and 270 degrees as three classes more (Omniglot)
    #[arg(long)]
    pub rotations: bool,
    #[command(flatten)]
    pub read: ReadArgs,
}

impl DataArgs {
    /// Opens the data set; `fresh` reads all files anew.
    pub(crate) fn open(&self, on_bad: OnBadImage, fresh: bool) -> anyhow::Result<Opened> {
        self.read.with_opener(on_bad, |opener| {
            let opened = if self.data == "glyphs" {
                Opened::glyphs()?
            } else {
                let source = self.source(opener.cache)?;
                if fresh { opener.read(&source)? } else { opener.open(&source)? }
            };
            if self.rotations { opened.with_rotations() } else { Ok(opened) }
        })
    }

    fn source(&self, cache: &Cache) -> siskin_data::Result<Source> {
        let mut source = cache.resolve(&self.data)?;
        source.hints.images = self.images.clone().or(source.hints.images);
        source.hints.splits = self.splits.clone().or(source.hints.splits);
        Ok(source)
    }
}

/// A part of a split.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Part {
    /// Base classes.
    Train,
    /// Validation classes.
    Val,
    /// Novel classes.
    Test,
    /// All classes, whatever the split.
    All,
}

/// Which part of which split.
#[derive(clap::Args)]
pub(crate) struct PartArgs {
    /// The part of the split
    #[arg(long, value_enum, default_value = "test", value_name = "PART")]
    pub split: Part,
    /// The split, where the data set has several (see `siskin data split`)
    #[arg(long, value_name = "NAME")]
    pub scheme: Option<String>,
}

impl PartArgs {
    /// The classes meant.
    pub(crate) fn choose(&self, opened: &Opened) -> anyhow::Result<Split> {
        let name = match self.split {
            Part::Train => SplitName::Train,
            Part::Val => SplitName::Val,
            Part::Test => SplitName::Test,
            Part::All => return Ok(Split::all(SplitName::Test, opened.items.clone())),
        };
        let splits = opened
            .splits(self.scheme.as_deref())
            .context("To use all classes whatever the split, say --split all")?;
        Ok(splits.get(name).clone())
    }
}
