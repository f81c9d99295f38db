//! Features that were computed before, by the content of the image and the model: `<cache>/features/<model>.rows`.
//!
//! Records of one length follow each other: hash of the image, the features, checksum. A record is appended whole; what a killed
//! process left of one is cut off when the file is opened next.

use crate::error::{Error, Result};
use siskin_data::files::Lock;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Which image: blake3 of its file, or of what else says all about its pixels.
pub type ImageKey = [u8; 32];

/// Bytes of a record beside its features: key and checksum.
const FIXED: usize = 40;
/// First bytes of a file: what it is, and the length of a vector.
const HEAD: usize = 16;
const MAGIC: &[u8; 8] = b"siskinF1";

/// Images that go through somebody else's network before what it gave is kept: few, for one may take a second, and what was not kept is
/// lost when the work is stopped.
pub fn images_at_a_time() -> usize {
    (4 * rayon::current_num_threads()).clamp(8, 64)
}

/// What is kept of a model.
pub struct KeptFeatures {
    path: PathBuf,
    file: Mutex<File>,
    /// 0 until the first record is written.
    dim: usize,
    /// Where the record of an image begins.
    places: HashMap<ImageKey, u64>,
    end: u64,
    _lock: Lock,
}

impl KeptFeatures {
    /// Opens what is kept of a model, one process at a time.
    pub fn open(cache: &Path, model: &str) -> Result<KeptFeatures> {
        let name: String = model.chars().take(32).collect();
        let folder = cache.join("features").join(name);
        let failed = |source| Error::from(siskin_data::Error::io("open the kept features", &folder, source));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let lock = Lock::take(&folder).map_err(failed)?;
        let path = folder.join("features.rows");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let mut kept = KeptFeatures {
            path,
            file: Mutex::new(file),
            dim: 0,
            places: HashMap::new(),
            end: 0,
            _lock: lock,
        };
        kept.scan().map_err(failed)?;
        Ok(kept)
    }

    /// Reads the keys. A file that is none of ours begins anew.
    fn scan(&mut self) -> std::io::Result<()> {
        let file = self.file.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let length = file.metadata()?.len();
        let mut head = [0; HEAD];
        let whole = length >= HEAD as u64;
        if whole {
            file.read_exact(&mut head)?;
        }
        let dim = u64::from_le_bytes([
            head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15],
        ]);
        if !whole || &head[..8] != MAGIC || dim == 0 || dim > 1 << 20 {
            return file.set_len(0);
        }
        self.dim = dim as usize;
        let record = (FIXED + 4 * self.dim) as u64;
        let count = (length - HEAD as u64) / record;
        for i in 0..count {
            let place = HEAD as u64 + i * record;
            let mut key = [0; 32];
            file.seek(SeekFrom::Start(place))?;
            file.read_exact(&mut key)?;
            self.places.insert(key, place);
        }
        self.end = HEAD as u64 + count * record;
        file.set_len(self.end)
    }

    /// The features of an image; `None` if they are not there, or damaged.
    pub fn get(&self, key: &ImageKey) -> Option<Vec<f32>> {
        let place = *self.places.get(key)?;
        let mut record = vec![0; FIXED + 4 * self.dim];
        {
            // A poisoned lock means that another thread panicked while reading; the place is sought anew.
            let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            file.seek(SeekFrom::Start(place)).ok()?;
            file.read_exact(&mut record).ok()?;
        }
        let (body, sum) = record.split_at(record.len() - 8);
        if checksum(body) != sum || &body[..32] != key {
            return None;
        }
        Some(body[32..].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// Appends features.
    pub fn add(&mut self, rows: &[(ImageKey, Vec<f32>)]) -> Result<()> {
        let Some((_, first)) = rows.first() else { return Ok(()) };
        let mut bytes = Vec::new();
        let mut at = self.end;
        if self.dim == 0 {
            self.dim = first.len();
            bytes.extend(MAGIC);
            bytes.extend((self.dim as u64).to_le_bytes());
            at = HEAD as u64;
        }
        let start = self.end;
        for (key, row) in rows {
            let begin = bytes.len();
            bytes.extend(key);
            bytes.extend(row.iter().flat_map(|v| v.to_le_bytes()));
            let sum = checksum(&bytes[begin..]);
            bytes.extend(sum);
            self.places.insert(*key, at);
            at += (bytes.len() - begin) as u64;
        }
        let path = self.path.clone();
        let file = self.file.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let written = file.seek(SeekFrom::Start(start)).and_then(|_| file.write_all(&bytes));
        written.map_err(|source| siskin_data::Error::io("keep features in", &path, source))?;
        self.end = start + bytes.len() as u64;
        Ok(())
    }
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let hash = *blake3::hash(bytes).as_bytes();
    std::array::from_fn(|i| hash[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_comes_back_and_damage_is_computed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let open = || KeptFeatures::open(folder.path(), "model").unwrap();
        let rows: Vec<(ImageKey, Vec<f32>)> =
            (0..5).map(|i| ([i; 32], vec![f32::from(i), 0.5, -1.0])).collect();
        let mut kept = open();
        kept.add(&rows[..2]).unwrap();
        kept.add(&rows[2..]).unwrap();
        assert_eq!(kept.get(&[1; 32]), Some(rows[1].1.clone()), "before it is closed");
        let path = kept.path.clone();
        drop(kept);
        let all = open();
        assert!(
            rows.iter().all(|(key, row)| all.get(key).as_ref() == Some(row)) && all.get(&[9; 32]).is_none()
        );
        drop(all);
        // A process was killed within the last record.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let mut cut = open();
        assert!(cut.get(&[4; 32]).is_none() && cut.get(&[3; 32]).is_some());
        cut.add(&rows[4..]).unwrap();
        assert_eq!(cut.get(&[4; 32]), Some(rows[4].1.clone()));
        drop(cut);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEAD + 34] ^= 1; // a feature of the first record
        std::fs::write(&path, &bytes).unwrap();
        assert!(open().get(&[0; 32]).is_none() && open().get(&[1; 32]).is_some());
        std::fs::write(&path, b"something else that is longer than a head").unwrap();
        let mut other = open();
        assert!(other.get(&[1; 32]).is_none());
        other.add(&rows).unwrap();
        assert_eq!(other.get(&[4; 32]), Some(rows[4].1.clone()));
    }
}
