//! Whole small runs on the embedded glyphs.

mod cdkt;
mod methods;
mod phases;
mod ranks;
mod small;
mod weights;
