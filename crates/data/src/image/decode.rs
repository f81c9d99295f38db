//! From the bytes of an image file to 8-bit pixels, grey or RGB.
//!
//! What a file holds is told by its content, not its name. EXIF orientation is applied; palettes, 1-bit and 16-bit
//! images become 8-bit, CMYK becomes RGB; what is transparent shows white. A header that claims more pixels than
//! [`MAX_PIXELS`] is refused before memory for them is taken; so is one whose parts need more than the whole (`parts.rs`).

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::parts::largest_part;
use super::{Image, resize::resize};
use crate::fault::Fault;

/// Largest number of pixels that is decoded: a square of 8192.
pub const MAX_PIXELS: u64 = 1 << 26;
/// Memory beside the pixels: profiles, tables and the like. A header that needs more is refused.
const BESIDE: u64 = 8 << 20;

/// Decodes an image; if its shorter side is longer than `shorter_side`, it is made smaller so that it is not,
/// the aspect ratio kept.
pub fn decode(bytes: &[u8], shorter_side: Option<u32>) -> Result<Image, Fault> {
    decode_if(bytes, shorter_side, |_| Ok(())).map(|(image, ())| image)
}

/// What a header claims of its image, or of the largest part that the decoder will make of it: a frame may be larger than the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Most memory that decoding needs at any moment, in bytes: the image three times over (as decoded, and turned
    /// or in the decoder's own buffers), once more with 8 bits, and 8 MB for what is no pixel. The decoders get no more.
    pub memory: u64,
}

impl Claim {
    /// Width x height.
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// Reads the header alone. Images of more than [`MAX_PIXELS`] are refused.
pub fn claim(bytes: &[u8]) -> Result<Claim, Fault> {
    guarded(|| Opened::new(bytes).map(|opened| opened.claim))
}

/// [`decode`] with a word before memory for the pixels is taken: what `admit` refuses is not decoded. What it returns comes
/// back with the image, to be held as long as that: a very long image stays large when its shorter side is short.
pub fn decode_if<Permit>(
    bytes: &[u8],
    shorter_side: Option<u32>,
    admit: impl FnOnce(&Claim) -> Result<Permit, Fault>,
) -> Result<(Image, Permit), Fault> {
    guarded(|| {
        let opened = Opened::new(bytes)?;
        let permit = admit(&opened.claim)?;
        Ok((shrunk(eight_bit(opened.decode(bytes)?), shorter_side), permit))
    })
}

/// The decoders are fuzzed, but if one of them panics all the same, that is a bad file and not the end of an import.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Fault::Decode { reason: "the decoder gave up in an unforeseen way".into() }))
}

/// An image from pixels in memory, `[height, width, channels]`, treated as those of a file. `channels` from 1 to 4: grey, grey
/// and alpha, RGB, RGB and alpha.
pub fn from_pixels(
    (height, width, channels): (usize, usize, usize),
    pixels: Vec<u8>,
    shorter_side: Option<u32>,
) -> Result<Image, Fault> {
    let unfit = || Fault::Decode {
        reason: format!(
            "{} bytes are not {height} x {width} pixels of {channels} channels (1 to 4)",
            pixels.len()
        ),
    };
    let size = u32::try_from(height).ok().zip(u32::try_from(width).ok());
    let (rows, columns) = size.filter(|(h, w)| *h > 0 && *w > 0).ok_or_else(unfit)?;
    if u64::from(rows) * u64::from(columns) > MAX_PIXELS {
        return Err(Fault::TooManyPixels { width: columns, height: rows, limit: MAX_PIXELS });
    }
    if height * width * channels != pixels.len() {
        return Err(unfit());
    }
    let (channels, pixels) = match channels {
        1 => (1, pixels),
        2 => (1, on_white::<2>(pixels)),
        3 => (3, pixels),
        4 => (3, on_white::<4>(pixels)),
        _ => return Err(unfit()),
    };
    Ok(shrunk(Image { width: columns, height: rows, channels, pixels }, shorter_side))
}

/// The image with a shorter side of at most `shorter_side`.
fn shrunk(image: Image, shorter_side: Option<u32>) -> Image {
    let (width, height) = match shorter_side {
        Some(side) => bounded(image.width, image.height, side),
        None => (image.width, image.height),
    };
    if (width, height) == (image.width, image.height) {
        image
    } else {
        resize(&image.as_ref(), width, height)
    }
}

/// The size with the shorter side at most `side`, never larger than before.
fn bounded(width: u32, height: u32, side: u32) -> (u32, u32) {
    let shorter = width.min(height);
    if shorter <= side {
        return (width, height);
    }
    let scaled =
        |v: u32| ((u64::from(v) * u64::from(side) + u64::from(shorter) / 2) / u64::from(shorter)) as u32;
    (scaled(width), scaled(height))
}

/// A file whose header was read and whose pixels were not.
struct Opened<'a> {
    decoder: Box<dyn ImageDecoder + 'a>,
    format: ImageFormat,
    limits: Limits,
    claim: Claim,
}

impl<'a> Opened<'a> {
    fn new(bytes: &'a [u8]) -> Result<Opened<'a>, Fault> {
        if bytes.is_empty() {
            return Err(Fault::Empty);
        }
        let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(refused)?;
        let format = reader.format().ok_or(Fault::UnknownFormat)?;
        // Before the decoder sees it: some decoders take memory for parts without asking.
        let part = largest_part(format, bytes)?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(BESIDE);
        reader.limits(limits.clone());
        let decoder = reader.into_decoder().map_err(fault)?;
        let area = |(width, height): (u32, u32)| u64::from(width) * u64::from(height);
        let whole = decoder.dimensions();
        let (width, height) = part.filter(|part| area(*part) > area(whole)).unwrap_or(whole);
        let pixels = area((width, height));
        if pixels > MAX_PIXELS {
            return Err(Fault::TooManyPixels { width, height, limit: MAX_PIXELS });
        }
        let each = 3 * u64::from(decoder.color_type().bytes_per_pixel()) + 4;
        let claim = Claim { width, height, memory: each * pixels + BESIDE };
        limits.max_alloc = Some(claim.memory);
        Ok(Opened { decoder: Box::new(decoder), format, limits, claim })
    }

    fn decode(mut self, bytes: &[u8]) -> Result<DynamicImage, Fault> {
        // The JPEG decoder paints what is missing grey and says nothing.
        if self.format == ImageFormat::Jpeg && !jpeg_is_complete(bytes) {
            return Err(Fault::Truncated);
        }
        self.limits.reserve(self.decoder.total_bytes()).map_err(fault)?;
        self.decoder.set_limits(self.limits).map_err(fault)?;
        let orientation = self.decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let mut image = DynamicImage::from_decoder(self.decoder).map_err(fault)?;
        image.apply_orientation(orientation);
        Ok(image)
    }
}

fn refused(error: impl std::fmt::Display) -> Fault {
    Fault::Decode { reason: error.to_string() }
}

fn fault(error: image::ImageError) -> Fault {
    match &error {
        image::ImageError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Fault::Truncated,
        image::ImageError::Unsupported(_) => refused(error),
        image::ImageError::Decoding(e) if e.to_string().to_lowercase().contains("unexpected end of file") => {
            Fault::Truncated
        }
        _ => refused(error),
    }
}

/// Walks the segments of a JPEG to its end marker. Thumbnails within segments have end markers of their own, which
/// must not count.
fn jpeg_is_complete(bytes: &[u8]) -> bool {
    let mut at = 2;
    loop {
        // To the next marker: 0xff and a byte that is neither stuffing (0x00), nor filling (0xff), nor a restart.
        let Some(offset) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == 0xff)) else {
            return false;
        };
        at += offset + 1;
        match bytes.get(at) {
            None => return false,
            Some(0xd9) => return true,
            Some(0xff) => {}
            Some(0x00 | 0x01 | 0xd0..=0xd8) => at += 1,
            Some(_) => match bytes.get(at + 1..at + 3) {
                Some(&[high, low]) => at += 1 + usize::from(u16::from_be_bytes([high, low])),
                _ => return false,
            },
        }
    }
}

/// Grey stays grey, all else becomes RGB; the transparent shows white.
fn eight_bit(image: DynamicImage) -> Image {
    let (width, height) = (image.width(), image.height());
    let (channels, pixels) = match image.color() {
        ColorType::L8 | ColorType::L16 => (1, image.into_luma8().into_raw()),
        ColorType::La8 | ColorType::La16 => (1, on_white::<2>(image.into_luma_alpha8().into_raw())),
        ColorType::Rgba8 | ColorType::Rgba16 | ColorType::Rgba32F => {
            (3, on_white::<4>(image.into_rgba8().into_raw()))
        }
        _ => (3, image.into_rgb8().into_raw()),
    };
    Image { width, height, channels, pixels }
}

/// Pixels of `N` channels, of which the last is alpha, laid over white, in the memory they are in: an image may be large.
fn on_white<const N: usize>(mut pixels: Vec<u8>) -> Vec<u8> {
    let over = |value: u8, alpha: u8| {
        let (value, alpha) = (u32::from(value), u32::from(alpha));
        ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
    };
    let count = pixels.len() / N;
    for i in 0..count {
        let alpha = pixels[N * i + N - 1];
        for channel in 0..N - 1 {
            pixels[(N - 1) * i + channel] = over(pixels[N * i + channel], alpha);
        }
    }
    pixels.truncate(count * (N - 1));
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ExtendedColorType, ImageEncoder};

    fn png(pixels: &[u8], width: u32, height: u32, color: ExtendedColorType) -> Vec<u8> {
        let mut out = Vec::new();
        image::codecs::png::PngEncoder::new(&mut out).write_image(pixels, width, height, color).unwrap();
        out
    }

    fn jpeg(width: u16, height: u16, color: jpeg_encoder::ColorType, pixels: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        jpeg_encoder::Encoder::new(&mut out, 100).encode(pixels, width, height, color).unwrap();
        out
    }

    /// A colour JPEG, left half red, right half blue, 16 x 8.
    fn red_blue() -> Vec<u8> {
        let row = [[250u8, 0, 0]; 8].concat().into_iter().chain([[0u8, 0, 250]; 8].concat());
        let row: Vec<u8> = row.collect();
        jpeg(16, 8, jpeg_encoder::ColorType::Rgb, &row.repeat(8))
    }

    /// The pixel at (x, y) of an RGB image.
    fn at(image: &Image, x: usize, y: usize) -> [u8; 3] {
        let start = (y * image.width as usize + x) * 3;
        std::array::from_fn(|c| image.pixels[start + c])
    }

    fn near(a: [u8; 3], b: [u8; 3]) -> bool {
        a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= 6)
    }

    #[test]
    fn grey_stays_grey_and_colour_colour() {
        let image = decode(&png(&[0, 128, 255], 3, 1, ExtendedColorType::L8), None).unwrap();
        assert_eq!((image.channels, image.pixels), (1, vec![0, 128, 255]));
        let image = decode(&png(&[1, 2, 3], 1, 1, ExtendedColorType::Rgb8), None).unwrap();
        assert_eq!((image.width, image.height, image.channels, image.pixels), (1, 1, 3, vec![1, 2, 3]));
    }

    #[test]
    fn pixels_in_memory_are_treated_as_those_of_a_file() {
        let pixels: Vec<u8> = (0..40 * 30 * 4u32).map(|i| (i * 37 % 251) as u8).collect();
        for (channels, color) in [
            (1, ExtendedColorType::L8),
            (2, ExtendedColorType::La8),
            (3, ExtendedColorType::Rgb8),
            (4, ExtendedColorType::Rgba8),
        ] {
            let bytes = &pixels[..40 * 30 * channels];
            for side in [None, Some(20)] {
                let file = decode(&png(bytes, 40, 30, color), side).unwrap();
                assert_eq!(from_pixels((30, 40, channels), bytes.to_vec(), side).unwrap(), file);
            }
        }
        for (shape, bytes) in [((2, 2, 1), 3), ((0, 2, 1), 0), ((1, 1, 5), 5), ((1, 1, 0), 0)] {
            let fault = from_pixels(shape, vec![0; bytes], None).unwrap_err();
            assert!(matches!(fault, Fault::Decode { .. }), "{fault}");
        }
        let large = from_pixels((1 << 14, 1 << 14, 1), Vec::new(), None);
        assert!(matches!(large, Err(Fault::TooManyPixels { .. })));
    }

    #[test]
    fn sixteen_bits_become_eight() {
        let bytes: Vec<u8> = [0u16, 0x8080, 0xffff].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let image = decode(&png(&bytes, 3, 1, ExtendedColorType::L16), None).unwrap();
        assert_eq!((image.channels, image.pixels), (1, vec![0, 128, 255]));
        let image = decode(&png(&bytes, 1, 1, ExtendedColorType::Rgb16), None).unwrap();
        assert_eq!((image.channels, image.pixels), (3, vec![0, 128, 255]));
    }

    #[test]
    fn the_transparent_shows_white() {
        let pixels = [10, 20, 30, 255, 10, 20, 30, 0, 0, 0, 0, 51];
        let image = decode(&png(&pixels, 3, 1, ExtendedColorType::Rgba8), None).unwrap();
        assert_eq!(image.pixels, [10, 20, 30, 255, 255, 255, 204, 204, 204]);
        let image = decode(&png(&[7, 255, 7, 0], 2, 1, ExtendedColorType::La8), None).unwrap();
        assert_eq!((image.channels, image.pixels), (1, vec![7, 255]));
    }

    #[test]
    fn palette_and_one_bit() {
        // A GIF has a palette: black, red, green, white.
        let gif: &[u8] =
            b"GIF89a\x04\x00\x01\x00\x81\x00\x00\x00\x00\x00\xff\x00\x00\x00\xff\x00\xff\xff\xff\
            \x2c\x00\x00\x00\x00\x04\x00\x01\x00\x00\x02\x03\x44\x34\x05\x00\x3b";
        let image = decode(gif, None).unwrap();
        assert_eq!(image.pixels, [0, 0, 0, 255, 0, 0, 0, 255, 0, 255, 255, 255]);
        // A 1-bit portable map: 1 is black. And a 1-bit PNG, made from one of 8 bits by its header.
        let image = decode(b"P1 4 1 0 1 1 0", None).unwrap();
        assert_eq!((image.channels, image.pixels), (1, vec![255, 0, 0, 255]));
        let mut out = Vec::new();
        {
            let mut encoder = png_encoder(&mut out, 4, 1);
            encoder.set_color(png::ColorType::Grayscale);
            encoder.set_depth(png::BitDepth::One);
            encoder.write_header().unwrap().write_image_data(&[0b0110_0000]).unwrap();
        }
        let image = decode(&out, None).unwrap();
        assert_eq!((image.channels, image.pixels), (1, vec![0, 255, 255, 0]));
        let mut out = Vec::new();
        {
            let mut encoder = png_encoder(&mut out, 2, 1);
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_palette(vec![9, 8, 7, 1, 2, 3]);
            encoder.write_header().unwrap().write_image_data(&[1, 0]).unwrap();
        }
        assert_eq!(decode(&out, None).unwrap().pixels, [1, 2, 3, 9, 8, 7]);
    }

    fn png_encoder(out: &mut Vec<u8>, width: u32, height: u32) -> png::Encoder<'_, &mut Vec<u8>> {
        png::Encoder::new(out, width, height)
    }

    #[test]
    fn cmyk_becomes_rgb() {
        // Ink as Adobe stores it, inverted by the encoder: no cyan, full magenta and yellow, no black is red.
        let pixels = [0u8, 255, 255, 0].repeat(64);
        for color in [jpeg_encoder::ColorType::Cmyk, jpeg_encoder::ColorType::CmykAsYcck] {
            let image = decode(&jpeg(8, 8, color, &pixels), None).unwrap();
            assert_eq!(image.channels, 3);
            assert!(near(at(&image, 3, 3), [255, 0, 0]), "{color:?}: {:?}", at(&image, 3, 3));
        }
    }

    #[test]
    fn exif_orientation_is_applied() {
        // Orientation 6: the camera was held so that the picture must be turned clockwise: red comes on top.
        let tiff = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let plain = red_blue();
        let mut turned = plain[..2].to_vec();
        turned.extend([0xff, 0xe1]);
        turned.extend((tiff.len() as u16 + 2).to_be_bytes());
        turned.extend(tiff);
        turned.extend(&plain[2..]);
        let image = decode(&plain, None).unwrap();
        assert_eq!((image.width, image.height), (16, 8));
        assert!(near(at(&image, 0, 0), [250, 0, 0]) && near(at(&image, 15, 0), [0, 0, 250]));
        let image = decode(&turned, None).unwrap();
        assert_eq!((image.width, image.height), (8, 16));
        assert!(near(at(&image, 4, 0), [250, 0, 0]), "{:?}", at(&image, 4, 0));
        assert!(near(at(&image, 4, 15), [0, 0, 250]), "{:?}", at(&image, 4, 15));
    }

    #[test]
    fn empty_foreign_and_truncated_files_are_told_apart() {
        assert_eq!(decode(b"", None), Err(Fault::Empty));
        assert_eq!(decode(b"<html>404 not found</html>", None), Err(Fault::UnknownFormat));
        let jpeg = red_blue();
        let noise: Vec<u8> = (0..32 * 32).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let png = png(&noise, 32, 32, ExtendedColorType::L8);
        for cut in [jpeg.len() - 1, jpeg.len() - 2, jpeg.len() / 2, jpeg.len() * 3 / 4] {
            assert!(decode(&jpeg[..cut], None).is_err(), "JPEG cut to {cut} of {}", jpeg.len());
        }
        assert_eq!(decode(&jpeg[..jpeg.len() - 2], None), Err(Fault::Truncated));
        for cut in [png.len() / 2, png.len() * 3 / 4, 40, 20] {
            assert!(decode(&png[..cut], None).is_err(), "PNG cut to {cut} of {}", png.len());
        }
        assert_eq!(decode(&png[..png.len() / 2], None), Err(Fault::Truncated));
        let trailing = [&jpeg[..], b"\0\0padding"].concat();
        assert!(decode(&trailing, None).is_ok(), "bytes after the end do no harm");
    }

    #[test]
    fn a_header_that_claims_the_moon_is_refused_before_memory_is_taken() {
        let mut png = png(&[0; 4], 2, 2, ExtendedColorType::L8);
        png[16..20].copy_from_slice(&65_500u32.to_be_bytes());
        png[20..24].copy_from_slice(&65_500u32.to_be_bytes());
        let crc = crc32(&png[12..29]);
        png[29..33].copy_from_slice(&crc.to_be_bytes());
        let moon = Err(Fault::TooManyPixels { width: 65_500, height: 65_500, limit: MAX_PIXELS });
        assert_eq!(decode(&png, None), moon);
        let mut jpeg = red_blue();
        let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
        jpeg[frame + 5..frame + 7].copy_from_slice(&65_500u16.to_be_bytes());
        jpeg[frame + 7..frame + 9].copy_from_slice(&65_500u16.to_be_bytes());
        assert_eq!(decode(&jpeg, None), moon);
    }

    #[test]
    fn what_is_not_admitted_is_not_decoded() {
        let png = png(&[7; 30 * 20], 30, 20, ExtendedColorType::L8);
        assert_eq!(claim(&png), Ok(Claim { width: 30, height: 20, memory: 7 * 600 + BESIDE }));
        // Half of the pixels are missing, and nobody notices before they are decoded.
        let half = &png[..png.len() / 2];
        assert_eq!(claim(half).map(|c| c.pixels()), Ok(600));
        let no = Fault::TooManyPixels { width: 30, height: 20, limit: 599 };
        let bounded = |limit: u64| {
            decode_if(half, None, |claim| if claim.pixels() > limit { Err(no.clone()) } else { Ok(()) })
        };
        assert_eq!(bounded(599), Err(no.clone()));
        assert_eq!(bounded(600), Err(Fault::Truncated));
        // 35 bytes that claim 65535 x 168 pixels.
        let gif = b"GIF89a\xff\xff\xa8\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\xff\xff\xa8\x00\x00\x02\x00\x3b";
        assert_eq!((gif.len(), claim(gif).map(|c| c.pixels())), (32, Ok(65_535 * 168)));
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0u32, |crc, b| {
            (0..8).fold(crc ^ u32::from(*b), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
        })
    }

    #[test]
    fn the_shorter_side_is_bounded_and_the_aspect_kept() {
        assert_eq!(bounded(500, 375, 168), (224, 168));
        assert_eq!(bounded(375, 500, 168), (168, 224));
        assert_eq!(bounded(105, 105, 168), (105, 105), "never larger");
        assert_eq!(bounded(10_000, 1, 168), (10_000, 1));
        let image = decode(&png(&[9; 400 * 300], 400, 300, ExtendedColorType::L8), Some(30)).unwrap();
        assert_eq!((image.width, image.height), (40, 30));
        assert!(image.pixels.iter().all(|p| *p == 9));
    }
}
