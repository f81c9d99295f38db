//! What a file says of the parts of its image, which may be larger than the whole: decoders take memory for them before they compare.

use std::io::Cursor;

use image::ImageFormat;

use crate::fault::Fault;

/// Width and height in pixels.
type Size = (u32, u32);

/// The largest part that a decoder will take memory or time for, where the format has parts: a frame of a GIF, a key frame of a WebP, the
/// tiles of a TIFF with what hangs over. Damaged files are left to their decoders; what these would believe is refused.
pub(super) fn largest_part(format: ImageFormat, bytes: &[u8]) -> Result<Option<Size>, Fault> {
    match format {
        ImageFormat::Gif => Ok(first_frame(bytes)),
        ImageFormat::WebP => Ok(largest_key_frame(bytes)),
        ImageFormat::Tiff => tiff(bytes),
        _ => Ok(None),
    }
}

/// The first frame of a GIF, the only one that is decoded.
fn first_frame(bytes: &[u8]) -> Option<Size> {
    let mut decoder = gif::DecodeOptions::new().read_info(Cursor::new(bytes)).ok()?;
    let frame = decoder.next_frame_info().ok()??;
    Some((frame.width.into(), frame.height.into()))
}

/// The largest key frame (VP8) of a WebP, wherever it is: alone, on a canvas, or in a frame of an animation.
fn largest_key_frame(bytes: &[u8]) -> Option<Size> {
    let of_animation = |(kind, range): ([u8; 4], &[u8])| match &kind {
        // Sixteen bytes of the frame come before its own chunks.
        b"ANMF" => chunks(range.get(16..).unwrap_or_default()).filter_map(key_frame).max_by_key(area),
        _ => key_frame((kind, range)),
    };
    chunks(bytes.get(12..)?).filter_map(of_animation).max_by_key(area)
}

fn area((width, height): &Size) -> u64 {
    u64::from(*width) * u64::from(*height)
}

/// Kind and content of each chunk of a RIFF file; the last content may be cut short.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (head, after) = rest.split_at_checked(8)?;
        let kind = [head[0], head[1], head[2], head[3]];
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        // A content of odd length is followed by one byte more.
        rest = after.get(length + length % 2..).unwrap_or_default();
        Some((kind, after.get(..length).unwrap_or(after)))
    })
}

/// Three bytes of a tag, three of a signature, and 14 bits for each side.
fn key_frame((kind, content): ([u8; 4], &[u8])) -> Option<Size> {
    let side =
        |at: usize| Some(u32::from(u16::from_le_bytes([*content.get(at)?, *content.get(at + 1)?]) & 0x3fff));
    (kind == *b"VP8 ").then(|| Some((side(6)?, side(8)?)))?
}

/// Most values of a tag of a TIFF that are numbers: an image of [`super::decode::MAX_PIXELS`] has fewer strips.
const MOST_NUMBERS: u64 = 1 << 18;

/// Checks the directory of a TIFF's first image: how large its tiles are, whether they are JPEG files of their own (whose headers nobody
/// has compared), and whether its values can be in the file.
fn tiff(bytes: &[u8]) -> Result<Option<Size>, Fault> {
    let Some(entries) = Tiff::new(bytes).and_then(|tiff| tiff.entries()) else { return Ok(None) };
    let [mut width, mut height, mut across, mut down] = [0u64; 4];
    for entry in entries {
        let size = u64::from(entry.size());
        if entry.count.saturating_mul(size) > bytes.len() as u64 || (size > 1 && entry.count > MOST_NUMBERS) {
            return Err(refused("a tag of the TIFF claims more values than there can be"));
        }
        let to = match entry.tag {
            256 => &mut width,
            257 => &mut height,
            322 => &mut across,
            323 => &mut down,
            259 if matches!(entry.number()?, 6 | 7) => return Err(refused("JPEG inside TIFF is not read")),
            _ => continue,
        };
        *to = entry.number()?.max(*to);
    }
    // What hangs over the image is unpacked too.
    let covered = |side: u64, tile: u64| {
        let all = if tile == 0 { side } else { side.div_ceil(tile).saturating_mul(tile) };
        u32::try_from(all).unwrap_or(u32::MAX)
    };
    Ok(Some((covered(width, across), covered(height, down))))
}

fn refused(reason: &str) -> Fault {
    Fault::Decode { reason: reason.into() }
}

/// A TIFF, or a BigTIFF, whose numbers take twice as many bytes.
struct Tiff<'a> {
    bytes: &'a [u8],
    little: bool,
    big: bool,
}

/// A tag with its value.
struct Entry {
    tag: u64,
    kind: u64,
    count: u64,
    /// The number in place of an offset, read as its kind says.
    value: u64,
}

impl<'a> Tiff<'a> {
    fn new(bytes: &'a [u8]) -> Option<Tiff<'a>> {
        let little = bytes.starts_with(b"II");
        let plain = Tiff { bytes, little, big: false };
        let big = plain.number(2, 2)? == 43;
        Some(Tiff { big, ..plain })
    }

    fn number(&self, at: u64, length: usize) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let part = self.bytes.get(at..at.checked_add(length)?)?;
        let join = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
        Some(if self.little { part.iter().rev().fold(0, join) } else { part.iter().fold(0, join) })
    }

    /// The first directory; nothing if it is not in the file.
    fn entries(&self) -> Option<Vec<Entry>> {
        let wide: usize = if self.big { 8 } else { 4 };
        let directory = self.number(if self.big { 8 } else { 4 }, wide)?;
        let length_of_count: usize = if self.big { 8 } else { 2 };
        let count = self.number(directory, length_of_count)?;
        let each = 4 + 2 * wide as u64;
        let first = directory.checked_add(length_of_count as u64)?;
        if count.checked_mul(each)? > self.bytes.len() as u64 {
            return None;
        }
        let entry = |i: u64| {
            let at = first.checked_add(i * each)?;
            let kind = self.number(at + 2, 2)?;
            let value = at + 4 + wide as u64;
            Some(Entry {
                tag: self.number(at, 2)?,
                kind,
                count: self.number(at + 4, wide)?,
                value: self.number(value, (Entry::size_of(kind) as usize).min(wide))?,
            })
        };
        (0..count).map(entry).collect()
    }
}

impl Entry {
    /// Bytes of a value of this kind.
    fn size_of(kind: u64) -> u8 {
        match kind {
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            _ => 1,
        }
    }

    fn size(&self) -> u8 {
        Entry::size_of(self.kind)
    }

    /// One number that is none but what it seems.
    fn number(&self) -> Result<u64, Fault> {
        match (self.kind, self.count) {
            (1 | 3 | 4 | 16, 1) => Ok(self.value),
            _ => Err(refused("a size of the TIFF is not one number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::decode::{MAX_PIXELS, claim, decode};

    /// A GIF of 10 x 10 whose frame has this size.
    fn gif(width: u16, height: u16) -> Vec<u8> {
        let mut bytes = b"GIF89a\x0a\0\x0a\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0".to_vec();
        bytes.extend([width.to_le_bytes(), height.to_le_bytes()].concat());
        bytes.extend(b"\0\x02\x02\x44\x01\0\x3b");
        bytes
    }

    #[test]
    fn a_frame_beyond_its_screen_counts_as_what_it_is() {
        assert_eq!(claim(&gif(10, 10)).map(|c| c.pixels()), Ok(100));
        let claimed = claim(&gif(4000, 3000)).unwrap();
        assert!(claimed.pixels() == 12_000_000 && claimed.memory > 12_000_000 * 8, "{claimed:?}");
        let moon = Err(Fault::TooManyPixels { width: 16_300, height: 16_300, limit: MAX_PIXELS });
        assert_eq!(decode(&gif(16_300, 16_300), None), moon);
    }

    #[test]
    fn key_frames_are_found_alone_on_a_canvas_and_in_an_animation() {
        let chunk = |kind: &[u8], content: &[u8]| {
            [kind, &(content.len() as u32).to_le_bytes(), content, &[0][..content.len() % 2]].concat()
        };
        let frame = chunk(b"VP8 ", b"\x10\0\0\x9d\x01\x2a\xff\x3f\xfe\x3f?");
        let canvas = chunk(b"VP8X", &[0, 0, 0, 0, 3, 0, 0, 3, 0, 0]);
        let moving = [chunk(b"ANIM", &[0; 6]), chunk(b"ANMF", &[&[0; 16], &frame[..]].concat())].concat();
        for content in [frame.clone(), [&canvas[..], &frame].concat(), [&canvas[..], &moving].concat()] {
            let size = (content.len() as u32 + 4).to_le_bytes();
            let file = [b"RIFF", &size[..], b"WEBP", &content].concat();
            assert_eq!(largest_key_frame(&file), Some((16_383, 16_382)));
            let refused = claim(&file);
            assert!(
                matches!(refused, Err(Fault::TooManyPixels { .. } | Fault::Decode { .. })),
                "{refused:?}"
            );
        }
    }

    /// A grey TIFF of 4 x 4 with these tags more.
    fn tiff_of(more: &[(u16, u16, u32, u32)], big: bool, little: bool) -> Vec<u8> {
        let number = |value: u64, length: usize| match little {
            true => value.to_le_bytes()[..length].to_vec(),
            false => value.to_be_bytes()[8 - length..].to_vec(),
        };
        let wide = if big { 8 } else { 4 };
        let entries = [(256, 3, 1, 4), (257, 3, 1, 4), (258, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)];
        let mut entries: Vec<(u16, u16, u32, u32)> =
            entries.into_iter().chain(more.iter().copied()).collect();
        entries.sort_unstable();
        let mut bytes = if little { b"II".to_vec() } else { b"MM".to_vec() };
        bytes.extend(number(if big { 43 } else { 42 }, 2));
        if big {
            bytes.extend([number(8, 2), number(0, 2)].concat());
        }
        bytes.extend(number(if big { 16 } else { 8 }, wide));
        bytes.extend(number(entries.len() as u64, if big { 8 } else { 2 }));
        for (tag, kind, count, value) in entries {
            let size = usize::from(Entry::size_of(kind.into())).min(wide);
            let mut value = number(value.into(), size);
            value.resize(wide, 0);
            bytes.extend(
                [number(tag.into(), 2), number(kind.into(), 2), number(count.into(), wide), value].concat(),
            );
        }
        bytes.extend([0; 400]);
        bytes
    }

    #[test]
    fn tiles_and_tags_of_a_tiff_are_looked_at_first() {
        let strips = [(259, 3, 1, 1), (273, 4, 1, 300), (278, 3, 1, 4), (279, 4, 1, 16)];
        for (big, little) in [(false, true), (false, false), (true, true)] {
            let plain = tiff_of(&strips, big, little);
            assert_eq!(tiff(&plain), Ok(Some((4, 4))));
            // Big ones are not known as images today.
            if !big {
                assert_eq!(decode(&plain, None).map(|image| image.pixels), Ok(vec![0; 16]));
            }
            let tiles =
                [(259, 3, 1, 1), (322, 4, 1, 1 << 28), (323, 3, 1, 16), (324, 4, 1, 300), (325, 4, 1, 16)];
            assert_eq!(tiff(&tiff_of(&tiles, big, little)), Ok(Some((1 << 28, 16))));
            let wide = claim(&tiff_of(&tiles, big, little));
            let moon = Fault::TooManyPixels { width: 1 << 28, height: 16, limit: MAX_PIXELS };
            assert_eq!(wide, Err(if big { Fault::UnknownFormat } else { moon }));
            for (tags, why) in [
                (&[(259, 3, 1, 7)][..], "JPEG inside TIFF"),
                (&[(259, 3, 1, 6)], "JPEG inside TIFF"),
                (&[(259, 3, 2, 7)], "not one number"),
                (&[(259, 11, 1, 7)], "not one number"),
                (&[(273, 4, 60_000_000, 8)], "more values than there can be"),
            ] {
                let fault = tiff(&tiff_of(tags, big, little)).unwrap_err().to_string();
                assert!(fault.contains(why), "{tags:?}: {fault}");
            }
        }
    }
}
