//! From a listing to a pack: files are read in order by one thread, decoded by all, written in order.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::prelude::*;

use super::pack::{PackWriter, Stored, StoredClass};
use super::{Cache, Record};
use crate::fault::{BadFile, Fault, OnBadImage};
use crate::image::decode::decode;
use crate::progress::Progress;
use crate::source::listing::{Item, Listing};
use crate::source::tree::MAX_FILE_BYTES;
use crate::split::Scheme;
use crate::{Error, Image, Result};

/// A batch ends with this many files ...
const BATCH_FILES: usize = 512;
/// ... or this many bytes: with the one being decoded and the one waiting, this bounds the memory.
const BATCH_BYTES: usize = 32 << 20;

/// Item index and bytes, or the fault why there are none.
type Decoded = Vec<(usize, std::result::Result<Vec<u8>, Fault>)>;

/// Decodes all images of a listing into a pack of the cache.
pub(crate) fn build(
    listing: Listing,
    shorter_side: Option<u32>,
    on_bad: OnBadImage,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Record> {
    if let (OnBadImage::Error, Some(first)) = (on_bad, listing.bad.first()) {
        return Err(Error::BadFile { file: first.clone() });
    }
    let mut writer = PackWriter::new(&cache.room("packs")?)?;
    let mut stored: Vec<Option<Stored>> = vec![None; listing.items.len()];
    let mut bad = listing.bad.clone();
    progress.begin(&format!("Reading {}", listing.name), listing.items.len() as u64);
    let result = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Decoded>(1);
        let reader = scope.spawn(|| read_all(&listing, sender));
        let written = decode_all(
            receiver,
            |item, decoded| {
                progress.advance(1);
                match decoded {
                    Ok((image, hash)) => stored[item] = Some(writer.push(&image, hash)?),
                    Err(fault) => {
                        let item = &listing.items[item];
                        let file = BadFile { path: listing.trees[item.tree].display(&item.path), fault };
                        if on_bad == OnBadImage::Error {
                            return Err(Error::BadFile { file });
                        }
                        bad.push(file);
                    }
                }
                Ok(())
            },
            shorter_side,
        );
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(read)
    });
    progress.end();
    result?;
    if stored.iter().all(Option::is_none) {
        return match bad.into_iter().next() {
            Some(file) => Err(Error::BadFile { file }),
            None => Err(Error::Empty { what: listing.name, hint: "it has no image" }),
        };
    }
    bad.sort_by(|a, b| a.path.cmp(&b.path));
    let (schemes, classes) = compact(&listing, stored);
    let pack = writer.finish(classes)?;
    Ok(Record {
        pack,
        name: listing.name,
        layout: listing.layout.to_owned(),
        schemes,
        bad,
        ignored: listing.ignored,
    })
}

/// Reads all files, tree by tree, and sends them in batches until the other side hangs up.
fn read_all(listing: &Listing, sender: SyncSender<Decoded>) -> Result<()> {
    for (index, tree) in listing.trees.iter().enumerate() {
        let items: Vec<usize> =
            (0..listing.items.len()).filter(|i| listing.items[*i].tree == index).collect();
        let wanted: Vec<&str> = items.iter().map(|i| listing.items[*i].path.as_str()).collect();
        if wanted.is_empty() {
            continue;
        }
        let (mut batch, mut bytes) = (Decoded::new(), 0);
        let mut open = true;
        tree.stream(&wanted, MAX_FILE_BYTES, &mut |position, read| {
            bytes += read.as_ref().map_or(0, Vec::len);
            batch.push((items[position], read));
            if batch.len() >= BATCH_FILES || bytes >= BATCH_BYTES {
                bytes = 0;
                open = sender.send(std::mem::take(&mut batch)).is_ok();
            }
            open
        })?;
        if !open || sender.send(batch).is_err() {
            break;
        }
    }
    Ok(())
}

/// Decodes batch after batch and gives the images to `sink` in the order they came.
fn decode_all(
    receiver: Receiver<Decoded>,
    mut sink: impl FnMut(usize, std::result::Result<(Image, blake3::Hash), Fault>) -> Result<()>,
    shorter_side: Option<u32>,
) -> Result<()> {
    for batch in receiver {
        let decoded: Vec<_> = batch
            .into_par_iter()
            .map(|(item, read)| {
                let read = read.and_then(|bytes| Ok((decode(&bytes, shorter_side)?, blake3::hash(&bytes))));
                (item, read)
            })
            .collect();
        for (item, image) in decoded {
            sink(item, image)?;
        }
    }
    Ok(())
}

/// Leaves out what was skipped: classes without an image, and their place in the schemes.
fn compact(listing: &Listing, stored: Vec<Option<Stored>>) -> (Vec<Scheme>, Vec<StoredClass>) {
    let mut image_at = vec![None; stored.len()];
    let mut class_at = vec![None; listing.classes.len()];
    let mut classes: Vec<StoredClass> = Vec::new();
    let mut count = 0;
    for (item, stored) in stored.into_iter().enumerate() {
        let Some(stored) = stored else { continue };
        let Item { class, name, .. } = &listing.items[item];
        if class_at[*class].is_none() {
            class_at[*class] = Some(classes.len());
            let listed = &listing.classes[*class];
            let domain = if listed.domain == listing.name { String::new() } else { listed.domain.clone() };
            classes.push((listed.name.clone(), domain, Vec::new()));
        }
        image_at[item] = Some(count);
        count += 1;
        if let Some(last) = classes.last_mut() {
            last.2.push((name.clone(), stored));
        }
    }
    let schemes = listing.schemes.iter().map(|scheme| Scheme {
        name: scheme.name.clone(),
        parts: scheme.parts.each_ref().map(|part| {
            let kept = part.iter().filter_map(|(class, members)| {
                let members =
                    members.as_ref().map(|m| m.iter().filter_map(|i| image_at[*i]).collect::<Vec<_>>());
                let empty = members.as_ref().is_some_and(Vec::is_empty);
                class_at[*class].filter(|_| !empty).map(|class| (class, members))
            });
            kept.collect()
        }),
    });
    (schemes.collect(), classes)
}
