//! What every method is built from.

use siskin_nn::{Architecture, DeviceChoice};

/// The facts of a run that a method may need to be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// The backbone.
    pub architecture: Architecture,
    /// Side of the square images it sees, in pixels.
    pub image_size: usize,
    /// Classes of a training episode.
    pub way: usize,
    /// Classes of the whole training split, where they are known: what a classifier of the base classes needs.
    pub base_classes: Option<usize>,
    /// The run's seed.
    pub seed: u64,
    /// The hardware.
    pub device: DeviceChoice,
}
