//! Charts as SVG text, their PNG pictures, and a report page that holds them.
//!
//! Every chart is a plain struct of data with one method `svg()`. No chart has identifiers of its own or
//! asks for anything from outside, so any number of them go inline into one page.

mod axis;
mod contour;
mod episode;
mod error;
mod histogram;
mod html;
mod lines;
mod paper;
mod png;
mod reliability;
mod surface;
mod svg;
mod theme;

pub use episode::{EpisodePlot, PlotClass, PlotQuery, Thumbnail};
pub use error::PlotError;
pub use histogram::{HistogramPanel, Histograms};
pub use html::{Report, ReportBlock, Section};
pub use lines::{LineChart, Series};
pub use paper::{confidence_histograms, likelihood_surfaces};
pub use png::render_png;
pub use reliability::{ReliabilityPanel, reliability_diagrams};
pub use surface::{Surface, surfaces};
