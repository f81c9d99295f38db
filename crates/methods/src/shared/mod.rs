//! What methods of all kinds use.

pub(crate) mod adam;
pub(crate) mod episode;
#[cfg(test)]
pub(crate) mod golden;
pub mod message;
pub(crate) mod notice;
pub(crate) mod rows;
pub(crate) mod scalar_fit;
pub(crate) mod scores;
pub(crate) mod setup;
pub(crate) mod share;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod tensors;
