//! Where images come from.

pub mod glyphs;
