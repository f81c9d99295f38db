//! The data of a run: its splits, and what becomes of an image before the network sees it.

use crate::config::Config;
use crate::error::Result;
use crate::frozen::Frozen;
use siskin_data::{
    Channels, Episode, EpisodeSpec, Items, Opened, Opener, Sampler, Split, SplitName, Splits, Transform,
};
use siskin_model::foreign::NetworkRef;

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
    /// The network that made vectors of all images; none where the images themselves are the data.
    pub network: Option<NetworkRef>,
    /// The images that the vectors were made of.
    images: Option<Splits>,
}

/// What a trainer must know of the data of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DataFacts {
    /// Names and content hashes.
    pub hash: String,
    /// Classes of the training split.
    pub base_classes: usize,
    /// [`RunData::network`].
    pub network: Option<NetworkRef>,
}

impl RunData {
    /// Opens the data that `config` names. `channels`: what the network takes.
    pub fn open(config: &Config, channels: Channels, opener: &Opener<'_>) -> Result<RunData> {
        RunData::open_for(config, channels, &SplitName::ALL, opener)
    }

    /// The same where only some splits are `needed`: somebody else's network sees the images of these alone.
    pub fn open_for(
        config: &Config,
        channels: Channels,
        needed: &[SplitName],
        opener: &Opener<'_>,
    ) -> Result<RunData> {
        let data = &config.data;
        let frozen = config.backbone.network.as_deref().map(Frozen::open).transpose()?;
        // The network decides how many pixels are needed.
        let least = frozen.as_ref().map_or(0, Frozen::shorter_side);
        let opener = &Opener { shorter_side: opener.shorter_side.map(|side| side.max(least)), ..*opener };
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
        let test_transform = Transform { size: data.image_size, channels, augment: None };
        let train_transform = Transform { augment: data.least_crop(), ..test_transform };
        let data = RunData { splits, hash, train_transform, test_transform, network: None, images: None };
        match frozen {
            None => Ok(data),
            Some(frozen) => data.through(frozen, needed, opener),
        }
    }

    /// The vectors that a network makes of the images.
    fn through(self, frozen: Frozen, needed: &[SplitName], opener: &Opener<'_>) -> Result<RunData> {
        let splits = frozen.splits(&self.splits, needed, opener)?;
        let hash = format!("{} by {}", self.hash, frozen.network.spec.hash());
        Ok(RunData { splits, hash, images: Some(self.splits), network: Some(frozen.network), ..self })
    }

    /// Classes of the training split.
    pub(crate) fn base_classes(&self) -> usize {
        self.split(SplitName::Train).classes.len()
    }

    /// What a trainer must know of it.
    pub fn facts(&self) -> DataFacts {
        DataFacts {
            hash: self.hash.clone(),
            base_classes: self.base_classes(),
            network: self.network.clone(),
        }
    }

    /// Whether the network sees one channel of images that have colours. The first image of each training class is looked at.
    pub(crate) fn drops_colour(&self) -> bool {
        // Of vectors, nothing is known of colours.
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

    /// One of the splits as images, where there are some.
    pub fn seen(&self, name: SplitName) -> &Split {
        self.images.as_ref().unwrap_or(&self.splits).get(name)
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
