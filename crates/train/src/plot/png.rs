//! SVG to PNG, and pixels to data URIs.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use resvg::{tiny_skia, usvg};

use super::error::PlotError;

/// Subsets of Source Sans Pro (see `fonts/README.md`), so that text is drawn alike on every machine.
const FONTS: [&[u8]; 2] =
    [include_bytes!("fonts/SiskinSans-Regular.ttf"), include_bytes!("fonts/SiskinSans-Semibold.ttf")];

/// Draws an SVG of this module as PNG, `scale` pixels to the unit, in the light palette.
pub fn render_png(svg: &str, scale: f32) -> Result<Vec<u8>, PlotError> {
    let mut fonts = usvg::fontdb::Database::new();
    FONTS.iter().for_each(|font| fonts.load_font_data(font.to_vec()));
    fonts.set_sans_serif_family("Siskin Sans");
    let options = usvg::Options {
        font_family: "Siskin Sans".into(),
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options)?;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let pixels = tiny_skia::Pixmap::new(width.ceil() as u32, height.ceil() as u32);
    let mut pixels = pixels.ok_or(PlotError::Size { width, height })?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}

/// Pixels as a PNG data URI. `pixels`: `[H, W, 1]` grey or `[H, W, 3]` RGB, row-major.
pub(super) fn data_uri(width: u32, height: u32, pixels: &[u8]) -> Result<String, PlotError> {
    let area = width as usize * height as usize;
    let colour = match pixels.len() {
        found if area == 0 || found == 0 => return Err(PlotError::Pixels { found, width, height }),
        len if len == area => png::ColorType::Grayscale,
        len if len == 3 * area => png::ColorType::Rgb,
        found => return Err(PlotError::Pixels { found, width, height }),
    };
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(format!("data:image/png;base64,{}", STANDARD.encode(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::svg::{Anchor, Area, Svg};

    fn decode(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width, info.height, pixels)
    }

    #[test]
    fn text_is_drawn_without_system_fonts() {
        let blank = Svg::new(60.0, 20.0).finish("blank");
        let mut svg = Svg::new(60.0, 20.0);
        svg.text((5.0, 15.0), Anchor::Start, "", "τ = 0.2");
        let (width, height, pixels) = decode(&render_png(&svg.finish("text"), 2.0).unwrap());
        assert_eq!((width, height), (120, 40));
        let (_, _, empty) = decode(&render_png(&blank, 2.0).unwrap());
        let dark = |p: &[u8]| p.chunks(4).filter(|c| c[0] < 128).count();
        assert_eq!(dark(&empty), 0);
        assert!(dark(&pixels) > 100, "{}", dark(&pixels));
    }

    #[test]
    fn pixels_come_back_through_the_chart() {
        let mut svg = Svg::new(2.0, 2.0);
        let uri = data_uri(2, 2, &[255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9]).unwrap();
        svg.image(Area { x: 0.0, y: 0.0, w: 2.0, h: 2.0 }, &uri, false);
        let (_, _, pixels) = decode(&render_png(&svg.finish("image"), 1.0).unwrap());
        assert_eq!(pixels, [255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 9, 9, 9, 255]);
    }

    #[test]
    fn bad_pictures_are_errors() {
        assert!(matches!(data_uri(2, 2, &[0; 5]), Err(PlotError::Pixels { found: 5, .. })));
        assert!(matches!(data_uri(0, 2, &[]), Err(PlotError::Pixels { .. })));
        assert!(matches!(render_png("<svg", 1.0), Err(PlotError::Svg(_))));
        assert!(matches!(render_png(&Svg::new(2.0, 2.0).finish(""), 0.0), Err(PlotError::Size { .. })));
    }
}
