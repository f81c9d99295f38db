//! From the bytes of a person's image to what a network sees, with bounds on memory that hold for the whole process.

use siskin_data::fault::Fault;
use siskin_data::files;
use siskin_data::image::decode::{Claim, MAX_PIXELS, decode_if};
use siskin_data::open::SHORTER_SIDE;
use siskin_data::source::tree::MAX_FILE_BYTES;
use siskin_model::{Look, Model, View};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

/// Where images of people come in. One decoded image is held for each thread that decodes, and only until the network's view
/// of it is made; all threads together keep within a memory. An eighth of it is for small images, which do not wait for large ones.
pub struct Intake {
    max_pixels: u64,
    large: Room,
    small: Room,
}

impl Default for Intake {
    /// 67 megapixels per image, 1 GB for all images that are being decoded.
    fn default() -> Self {
        Intake::new(MAX_PIXELS, Intake::MEMORY)
    }
}

impl Intake {
    /// Bytes for all images that are being decoded at the same time.
    pub const MEMORY: u64 = 1 << 30;

    /// `max_pixels`: of one image, at most [`MAX_PIXELS`]; `memory`: bytes for all that are being decoded. An image that
    /// needs more memory than that is decoded alone, beside small ones.
    pub fn new(max_pixels: u64, memory: u64) -> Intake {
        let small = memory / 8;
        Intake {
            max_pixels: max_pixels.min(MAX_PIXELS),
            large: Room::new(memory - small),
            small: Room::new(small),
        }
    }

    /// Decodes an image and makes the view that `model` has of it. The header alone decides whether it is small enough.
    pub fn view(&self, model: &Model, bytes: &[u8]) -> Result<View, Fault> {
        let (image, _permit) = decode_if(bytes, Some(model.shorter_side()), |claim| self.admit(claim))?;
        Ok(model.view(&image))
    }

    /// Decodes an image for what it looks like, before a model is chosen for it.
    pub fn look(&self, bytes: &[u8]) -> Result<Look, Fault> {
        let (image, _permit) = decode_if(bytes, Some(SHORTER_SIDE), |claim| self.admit(claim))?;
        Ok(Look::of(&image.as_ref()))
    }

    /// The same of an image file.
    pub fn look_file(&self, path: &Path) -> Result<Look, Fault> {
        self.look(&read(path)?)
    }

    /// Reads an image file and makes the view that `model` has of it.
    pub fn view_file(&self, model: &Model, path: &Path) -> Result<View, Fault> {
        self.view(model, &read(path)?)
    }

    fn admit(&self, claim: &Claim) -> Result<Permit<'_>, Fault> {
        if claim.pixels() > self.max_pixels {
            let Claim { width, height, .. } = *claim;
            return Err(Fault::TooManyPixels { width, height, limit: self.max_pixels });
        }
        // Two of them at least have room at a time.
        let small = claim.memory <= self.small.all / 2;
        Ok(if small { &self.small } else { &self.large }.claim(claim.memory))
    }
}

/// Bytes that several threads share.
struct Room {
    all: u64,
    free: Mutex<u64>,
    freed: Condvar,
}

/// A part of a room, given back when dropped.
struct Permit<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Room {
    fn new(all: u64) -> Room {
        Room { all, free: Mutex::new(all), freed: Condvar::new() }
    }

    /// Waits until so many bytes are free. Who asks for more than there are gets all of them.
    fn claim(&self, bytes: u64) -> Permit<'_> {
        let bytes = bytes.min(self.all);
        // A poisoned lock means that another thread panicked between two additions; the sum is still right.
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.freed.wait_while(free, |free| *free < bytes).unwrap_or_else(PoisonError::into_inner);
        *free -= bytes;
        Permit { room: self, bytes }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.room.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.room.freed.notify_all();
    }
}

/// The bytes of a regular file, if they are not too many: a pipe or a device may never end.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    files::read(path, MAX_FILE_BYTES).map_err(|e| match e.kind() {
        ErrorKind::FileTooLarge => {
            let bytes = std::fs::metadata(path).map_or(MAX_FILE_BYTES + 1, |about| about.len());
            Fault::TooManyBytes { bytes, limit: MAX_FILE_BYTES }
        }
        _ => Fault::Unreadable { reason: e.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn threads_together_keep_within_the_room() {
        let room = Room::new(100);
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [40, 60, 70, 30, 500, 1] {
                let (room, now, most) = (&room, &now, &most);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let permit = room.claim(bytes);
                        let held = now.fetch_add(permit.bytes, Ordering::SeqCst) + permit.bytes;
                        most.fetch_max(held, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(permit.bytes, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 100);
        assert_eq!(*room.free.lock().unwrap(), 100, "all was given back");
    }

    #[test]
    fn a_drawing_does_not_wait_for_a_photo() {
        let intake = Intake::new(MAX_PIXELS, 384_000_000);
        let claim = |memory| Claim { width: 1, height: 1, memory };
        // One that would take more than all of it.
        let photo = intake.admit(&claim(500_000_000)).unwrap();
        let drawings = [(); 2].map(|()| intake.admit(&claim(12_000_000)).unwrap());
        assert_eq!((photo.bytes, drawings[1].bytes), (336_000_000, 12_000_000));
        drop((photo, drawings));
        // And two photos of 12 megapixels find room at a time.
        let photos = [(); 2].map(|()| intake.admit(&claim(13 * 12_000_000 + (8 << 20))).unwrap());
        assert!(photos.iter().all(|permit| permit.bytes > 164_000_000));
    }

    #[test]
    fn only_the_header_of_a_large_image_is_read() {
        let model = Model::open(crate::EMBEDDED[0].0).unwrap();
        // A header without pixels: it is refused for its size, not for what is missing.
        let claims = b"P5 1000 100 255\n";
        let view = |max_pixels| Intake::new(max_pixels, 1).view(&model, claims).unwrap_err();
        assert_eq!(view(99_999), Fault::TooManyPixels { width: 1000, height: 100, limit: 99_999 });
        assert!(!matches!(view(100_000), Fault::TooManyPixels { .. }));
    }
}
