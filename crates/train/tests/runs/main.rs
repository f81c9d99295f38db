//! Whole small runs on the embedded glyphs.

mod cdkt;
mod methods;
mod small;
mod weights;
