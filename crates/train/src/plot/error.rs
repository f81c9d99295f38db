//! What can go wrong while drawing.

use resvg::usvg;
use thiserror::Error;

/// A chart that could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlotError {
    /// The SVG text is not valid.
    #[error("the chart is not a valid SVG: {0}")]
    Svg(#[from] usvg::Error),
    /// The picture has no pixels or too many.
    #[error("a picture of {width} by {height} pixels cannot be made; choose another scale")]
    Size {
        /// Width in pixels.
        width: f32,
        /// Height in pixels.
        height: f32,
    },
    /// The pixels could not be encoded.
    #[error("the picture could not be written as PNG: {0}")]
    Encoding(#[from] png::EncodingError),
    /// A pixel buffer does not fit its stated size.
    #[error("{found} bytes of pixels do not make {width} by {height} pixels of 1 or 3 channels")]
    Pixels {
        /// Bytes given.
        found: usize,
        /// Stated width.
        width: u32,
        /// Stated height.
        height: u32,
    },
    /// A likelihood refused its input.
    #[error("the likelihood could not be computed: {0}")]
    Likelihood(#[from] siskin_gp::Error),
    /// A grid whose size does not fit its values.
    #[error("{found} values do not make a grid of {columns} by {rows}, both at least 2")]
    Grid {
        /// Values given.
        found: usize,
        /// Stated columns.
        columns: usize,
        /// Stated rows.
        rows: usize,
    },
}
