//! The data of a run on somebody else's network: every image goes through it once, and what it gave is kept in the cache.

use crate::error::{Error, Result};
use crate::phase::{Phase, PhaseKind};
use rayon::prelude::*;
use siskin_data::{Dataset, Embeddings, Items, Opener, Split, SplitName, Splits};
use siskin_methods::Features;
use siskin_model::foreign::{ForeignNetwork, NetworkRef, Registry, features_key};
use siskin_model::{ImageKey, KeptFeatures, images_at_a_time, unit};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A network that stays as it is.
pub(crate) struct Frozen {
    /// Which it is.
    pub network: NetworkRef,
    loaded: ForeignNetwork,
}

/// Refuses a phase that has nothing to train.
pub(crate) fn check(phase: &Phase) -> Result<()> {
    let backbone = &phase.config.backbone;
    let nothing = backbone.network.is_some() && backbone.rank.unwrap_or(0) == 0;
    match nothing && phase.kind == PhaseKind::Train {
        false => Ok(()),
        true => Err(Error::Config(
            "the network stays as it is, and without a layer on it (backbone.rank) optimiser steps have nothing to move: give phases \
             of kind = \"fit-scalars\" alone, or a rank, e.g. backbone.rank = 32 (configs/photos.toml)"
                .into(),
        )),
    }
}

impl Frozen {
    /// The network that was added under this name.
    pub(crate) fn open(name: &str) -> Result<Frozen> {
        let registry = Registry::default_folder()
            .ok_or_else(|| Error::Run("this system names no folder for caches".into()))?;
        let network = NetworkRef { name: name.into(), spec: registry.spec(name)? };
        Ok(Frozen { network, loaded: registry.open(name)? })
    }

    /// Pixels of the shorter side that it needs at most.
    pub(crate) fn shorter_side(&self) -> u32 {
        self.network.spec.preprocessing.shorter_side()
    }

    /// The splits with vectors in place of images, those that are `needed`; the others stay as they are.
    pub(crate) fn splits(
        &self,
        splits: &Splits,
        needed: &[SplitName],
        opener: &Opener<'_>,
    ) -> Result<Splits> {
        let all: Vec<&Split> = needed.iter().map(|&name| splits.get(name)).collect();
        let mut done: Vec<(Arc<Dataset>, Arc<Embeddings>)> = Vec::new();
        for split in &all {
            let Items::Images(data) = &split.items else {
                return Err(Error::Run("backbone.network needs images; these are vectors already".into()));
            };
            if done.iter().all(|(known, _)| !Arc::ptr_eq(known, data)) {
                let vectors = self.embeddings(data, &used(data, &all), opener)?;
                done.push((data.clone(), Arc::new(vectors)));
            }
        }
        let of = |name: SplitName| -> Split {
            let split = splits.get(name);
            if !needed.contains(&name) {
                return split.clone();
            }
            let same = |(known, _): &&(Arc<Dataset>, _)| matches!(&split.items, Items::Images(data) if Arc::ptr_eq(known, data));
            let items = done
                .iter()
                .find(same)
                .map_or(split.items.clone(), |(_, vectors)| Items::Embeddings(vectors.clone()));
            Split { name: split.name, items, classes: split.classes.clone() }
        };
        Ok(Splits { train: of(SplitName::Train), val: of(SplitName::Val), test: of(SplitName::Test) })
    }

    /// Vectors of length 1 of the images that are `used`; of others zeros stand in their places.
    fn embeddings(&self, data: &Dataset, used: &[usize], opener: &Opener<'_>) -> Result<Embeddings> {
        let dim = self.network.spec.dim;
        let mut values = vec![0.0f32; data.len() * dim];
        let mut kept = KeptFeatures::open(opener.cache.folder(), &features_key(&self.network.spec.hash()))?;
        opener.progress.begin("embedding", used.len() as u64);
        let result = used.chunks(images_at_a_time()).try_for_each(|batch| {
            let rows = self.batch(data, batch, &mut kept, opener.shorter_side);
            opener.progress.advance(batch.len() as u64);
            batch
                .iter()
                .zip(rows?)
                .for_each(|(&item, row)| values[item * dim..(item + 1) * dim].copy_from_slice(&row));
            Ok(())
        });
        opener.progress.end();
        result.and_then(|()| {
            let names = data.classes.iter().map(|class| class.name.clone()).collect();
            let labels: Vec<usize> = (0..data.len()).map(|item| data.class_of(item)).collect();
            let mut vectors = Embeddings::new(&data.name, names, dim, &values, &labels)?;
            vectors.network_input = true;
            vectors
                .classes
                .iter_mut()
                .zip(&data.classes)
                .for_each(|(new, old)| new.domain.clone_from(&old.domain));
            Ok(vectors)
        })
    }

    fn batch(
        &self,
        data: &Dataset,
        batch: &[usize],
        kept: &mut KeptFeatures,
        shorter_side: Option<u32>,
    ) -> Result<Vec<Vec<f32>>> {
        let keys: Vec<ImageKey> = batch.iter().map(|&item| key(data, item, shorter_side)).collect();
        let known: Vec<Option<Vec<f32>>> = keys.iter().map(|key| kept.get(key)).collect();
        let missing: Vec<usize> = (0..batch.len()).filter(|&i| known[i].is_none()).collect();
        let pixels = missing.par_iter().map(|&i| {
            let image = data.image(batch[i])?;
            let image = siskin_data::Image {
                width: image.width,
                height: image.height,
                channels: image.channels,
                pixels: image.pixels.into_owned(),
            };
            Ok(self.network.spec.preprocessing.pixels(&image))
        });
        let pixels = pixels.collect::<siskin_data::Result<Vec<Vec<u8>>>>()?;
        let slices: Vec<&[u8]> = pixels.iter().map(Vec::as_slice).collect();
        let failed = |fault| siskin_model::Error::Foreign { name: self.network.name.clone(), fault };
        let fresh =
            self.loaded.features(&slices, &AtomicBool::new(false)).map_err(failed)?.ok_or(Error::Stopped)?;
        let rows: Vec<Vec<f32>> = fresh.chunks_exact(self.network.spec.dim).map(<[f32]>::to_vec).collect();
        let new: Vec<(ImageKey, Vec<f32>)> =
            missing.iter().map(|&i| keys[i]).zip(rows.iter().cloned()).collect();
        kept.add(&new)?;
        let mut rows = rows.into_iter();
        Ok(known
            .into_iter()
            .map(|row| of_length_1(row.or_else(|| rows.next()).unwrap_or_default()))
            .collect())
    }
}

/// Items of a data set that some split holds, sorted.
fn used(data: &Arc<Dataset>, splits: &[&Split]) -> Vec<usize> {
    let own =
        splits.iter().filter(|split| matches!(&split.items, Items::Images(of) if Arc::ptr_eq(of, data)));
    let mut items: Vec<usize> =
        own.flat_map(|split| split.classes.iter().flat_map(|class| class.items.iter().copied())).collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// The file of an image and how small it was made say all about its pixels. One that was not made smaller has the key of its file, as where
/// images are embedded one by one.
fn key(data: &Dataset, item: usize, shorter_side: Option<u32>) -> ImageKey {
    let (width, height, _) = data.image_size(item);
    if shorter_side.is_none_or(|side| width.min(height) < side) {
        return *data.image_hash(item).as_bytes();
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(data.image_hash(item).as_bytes()).update(&shorter_side.unwrap_or(0).to_le_bytes());
    *hasher.finalize().as_bytes()
}

fn of_length_1(row: Vec<f32>) -> Vec<f32> {
    let mut one = Features { dim: row.len(), rows: 1, values: row.into_iter().map(f64::from).collect() };
    unit(&mut one);
    one.values.iter().map(|&v| v as f32).collect()
}
