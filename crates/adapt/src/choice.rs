//! What some of a person's images look like, before a model is chosen for them.

use crate::error::Result;
use crate::intake::Intake;
use siskin_data::fault::Fault;
use siskin_data::source::tree::MAX_FILE_BYTES;
use siskin_data::source::{self, Hints};
use siskin_model::Look;
use std::path::Path;

/// Images that are looked at, spread over all.
const LOOKED_AT: usize = 40;

/// Of so many images, every how many are looked at.
pub fn look_every(images: usize) -> usize {
    images.div_ceil(LOOKED_AT).max(1)
}

/// Looks of some images of a folder, an archive or a list; those that cannot be read are reported when all are read.
pub fn looks_of(path: &Path, intake: &Intake) -> Result<Vec<Look>> {
    let listing = source::list(path, &Hints::default())?;
    let every = look_every(listing.items.len());
    let mut looks = Vec::new();
    for (t, tree) in listing.trees.iter().enumerate() {
        let some = listing.items.iter().step_by(every).filter(|item| item.tree == t);
        let wanted: Vec<&str> = some.map(|item| item.path.as_str()).collect();
        tree.stream(&wanted, MAX_FILE_BYTES, &mut |_, read: std::result::Result<Vec<u8>, Fault>| {
            looks.extend(read.and_then(|bytes| intake.look(&bytes)));
            true
        })?;
    }
    Ok(looks)
}
