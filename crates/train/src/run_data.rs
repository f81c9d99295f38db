//! The data of a run: its splits, and what becomes of an image before the network sees it.

use crate::config::Config;
use crate::error::Result;
use siskin_data::{
    Channels, Episode, EpisodeSpec, Items, Opened, Opener, Sampler, Split, SplitName, Splits, Transform,
};

/// The splits of a run and how images reach the network.
#[derive(Clone)]
pub struct RunData {
    /// Train, validation and test classes.
    pub splits: Splits,
    /// Names and content hashes, for the run record and the checkpoint.
    pub hash: String,
    /// What becomes of training images.
    pub train_transform: Transform,
    /// What becomes of images in validation, test and prediction.
    pub test_transform: Transform,
}

/// What a trainer must know of the data of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFacts {
    /// Names and content hashes.
    pub hash: String,
    /// Classes of the training split.
    pub base_classes: usize,
}

impl RunData {
    /// Opens the data that `config` names. `channels`: what the network takes.
    pub fn open(config: &Config, channels: Channels, opener: &Opener<'_>) -> Result<RunData> {
        let data = &config.data;
        let (mut base, base_hash) = splits(&data.train, data.split.as_deref(), data.rotations, opener)?;
        if let Some(count) = data.validation_domains {
            base = base.hold_out_domains(count)?;
        }
        let (splits, hash) = match &data.transfer {
            None => (base, base_hash),
            Some(other) => {
                let (target, target_hash) = splits(other, None, false, opener)?;
                // As the reference: all classes of the base data set, unless a split names some of them.
                let crossed = match &data.split {
                    None => Splits::cross_domain(base.train.items, &target),
                    Some(_) => Splits { train: base.train, ..target },
                };
                (crossed, format!("{base_hash} -> {target_hash}"))
            }
        };
        let test_transform = Transform { size: data.image_size, channels, augment: false };
        let train_transform = Transform { augment: data.augment, ..test_transform };
        Ok(RunData { splits, hash, train_transform, test_transform })
    }

    /// Classes of the training split.
    pub fn base_classes(&self) -> usize {
        self.split(SplitName::Train).classes.len()
    }

    /// What a trainer must know of it.
    pub fn facts(&self) -> DataFacts {
        DataFacts { hash: self.hash.clone(), base_classes: self.base_classes() }
    }

    /// Whether the network sees one channel of images that have colours. The first image of each training class is looked at.
    pub fn drops_colour(&self) -> bool {
        let train = self.split(SplitName::Train);
        let Items::Images(data) = &train.items else { return false };
        let coloured = |item: usize| {
            // Damaged pixels have no colours; that they are damaged is reported where they are used.
            let Ok(image) = data.image(item) else { return false };
            image.channels == 3 && image.pixels.chunks_exact(3).any(|p| p[0] != p[1] || p[1] != p[2])
        };
        let mut first = train.classes.iter().filter_map(|class| class.items.first());
        self.train_transform.channels == Channels::One && first.any(|item| coloured(*item))
    }

    /// Test or validation episodes `0..count` of a stream.
    pub fn episodes(
        &self,
        split: SplitName,
        spec: EpisodeSpec,
        seed: u64,
        count: u64,
    ) -> Result<Vec<Episode>> {
        let sampler = Sampler::new(vec![self.splits.get(split).clone()], spec, seed)?;
        Ok((0..count).map(|e| sampler.draw(e)).collect())
    }

    /// One of the splits.
    pub fn split(&self, name: SplitName) -> &Split {
        self.splits.get(name)
    }
}

/// Opens one data set by name or path.
fn splits(name: &str, split: Option<&str>, rotations: bool, opener: &Opener<'_>) -> Result<(Splits, String)> {
    let mut opened = match name {
        "glyphs" => Opened::glyphs()?,
        _ => opener.open(&opener.cache.resolve(name)?)?,
    };
    if rotations {
        opened = opened.with_rotations()?;
    }
    let hash = format!("{}:{}", opened.items.name(), opened.items.content_hash().to_hex());
    Ok((opened.splits(split)?, hash))
}
