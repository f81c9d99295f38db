//! How far a fit is, for whoever waits.

use std::sync::atomic::{AtomicU32, Ordering};

/// The part of a fit that is done, from 0 to 1; another thread may look. Only fits by inducing points tell it before they end.
#[derive(Debug, Default)]
pub struct Progress(AtomicU32);

impl Progress {
    /// From 0 to 1; it never falls during a fit.
    pub fn fraction(&self) -> f64 {
        f64::from(self.0.load(Ordering::Relaxed)) / 1e6
    }

    pub(super) fn start(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(super) fn reach(&self, fraction: f64) {
        self.0.fetch_max((fraction.clamp(0.0, 1.0) * 1e6) as u32, Ordering::Relaxed);
    }
}
