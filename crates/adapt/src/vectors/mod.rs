//! Images to a file of vectors: what a model gives for each, kept by content so that work is done once.
//!
//! | question | file |
//! | --- | --- |
//! | How is the file written? | `table.rs` |

mod table;

use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::intake::{Intake, read};
use rayon::prelude::*;
use siskin_data::Progress;
use siskin_data::fault::Fault;
use siskin_model::{ImageKey, KeptFeatures, Model, View, unit};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use table::Table;

/// What to embed, and where to.
pub struct EmbedJob<'a> {
    /// The model.
    pub model: &'a Model,
    /// Folder of the cache: features computed before are taken from there. `None` computes all anew and keeps nothing.
    pub cache: Option<&'a Path>,
    /// The file to write, ending in .safetensors or .npy.
    pub out: &'a Path,
    /// Give every vector the length 1, as tasks take them; else they are as the network gives them.
    pub unit: bool,
    /// Stop at the first image that cannot be read; else it is left out.
    pub stop_at_bad: bool,
}

/// What became of the images.
#[derive(Debug, Default)]
pub struct EmbedDone {
    /// Vectors written.
    pub rows: usize,
    /// Of them taken from the cache.
    pub kept: usize,
    /// Length of a vector.
    pub dim: usize,
    /// Folders that the images lie in: their labels.
    pub classes: Vec<String>,
    /// Images that could not be read, and why.
    pub bad: Vec<String>,
    /// Files written.
    pub files: Vec<PathBuf>,
}

/// An image that was looked up or is to be computed.
enum Found {
    Kept(Vec<f32>),
    View(Box<View>),
}

impl EmbedJob<'_> {
    /// Writes a vector for each image, in their order. Memory does not grow with the number of images but for their names. Ends
    /// with [`Error::Stopped`] soon after `stop` is set; what was computed is kept in the cache, and the next run goes on from there.
    pub fn run(&self, inputs: Inputs<'_>, progress: &dyn Progress, stop: &AtomicBool) -> Result<EmbedDone> {
        let paths = inputs.all()?;
        let mut kept =
            self.cache.map(|cache| KeptFeatures::open(cache, &self.model.features_key())).transpose()?;
        let mut table = Table::create(self.out, paths.iter().map(|(path, _)| path.as_path()))?;
        let mut done = EmbedDone::default();
        progress.begin("embedding", paths.len() as u64);
        let result = paths.chunks(self.model.images_at_a_time()).try_for_each(|batch| {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let part = self.batch(batch, kept.as_mut(), &mut table, &mut done, stop);
            progress.advance(batch.len() as u64);
            part
        });
        progress.end();
        result?;
        if done.rows == 0 {
            let first = done.bad.first().map_or(String::new(), |bad| format!("; the first: {bad}"));
            return Err(Error::Support(format!("no image could be embedded{first}")));
        }
        (done.dim, done.classes, done.files) = table.finish()?;
        Ok(done)
    }

    fn batch(
        &self,
        batch: &[(PathBuf, Option<Fault>)],
        kept: Option<&mut KeptFeatures>,
        table: &mut Table,
        done: &mut EmbedDone,
        stop: &AtomicBool,
    ) -> Result<()> {
        let intake = Intake::default();
        let known = kept.as_deref();
        let find =
            |(path, fault): &(PathBuf, Option<Fault>)| -> std::result::Result<(ImageKey, Found), Fault> {
                if let Some(fault) = fault {
                    return Err(fault.clone());
                }
                let bytes = read(path)?;
                let key = *blake3::hash(&bytes).as_bytes();
                match known.and_then(|kept| kept.get(&key)) {
                    Some(row) => Ok((key, Found::Kept(row))),
                    None => Ok((key, Found::View(Box::new(intake.view(self.model, &bytes)?)))),
                }
            };
        let found: Vec<_> = batch.par_iter().map(find).collect();
        let views = found.iter().filter_map(|f| match f {
            Ok((_, Found::View(view))) => Some(view.as_ref()),
            _ => None,
        });
        let fresh = self.model.raw_features(views, stop)?;
        let mut fresh = fresh.values.chunks_exact(fresh.dim.max(1)).map(to_f32);
        let mut new: Vec<(ImageKey, Vec<f32>)> = Vec::new();
        for ((path, _), found) in batch.iter().zip(found) {
            let row = match found {
                Err(fault) if self.stop_at_bad => {
                    return Err(Error::Support(format!("{}: {fault}; {}", path.display(), fault.advice())));
                }
                Err(fault) => {
                    done.bad.push(format!("{}: {fault}", path.display()));
                    continue;
                }
                Ok((_, Found::Kept(row))) => {
                    done.kept += 1;
                    row
                }
                Ok((key, Found::View(_))) => {
                    let row = fresh.next().unwrap_or_default();
                    new.push((key, row.clone()));
                    row
                }
            };
            table.push(path, &self.shaped(row))?;
            done.rows += 1;
        }
        Ok(kept.map_or(Ok(()), |kept| kept.add(&new))?)
    }

    fn shaped(&self, row: Vec<f32>) -> Vec<f32> {
        if !self.unit {
            return row;
        }
        let mut one = siskin_methods::Features {
            dim: row.len(),
            rows: 1,
            values: row.into_iter().map(f64::from).collect(),
        };
        unit(&mut one);
        to_f32(&one.values)
    }
}

fn to_f32(row: &[f64]) -> Vec<f32> {
    row.iter().map(|&v| v as f32).collect()
}

#[cfg(test)]
mod tests;
