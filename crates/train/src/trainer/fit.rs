//! A phase of kind `fit-scalars`: the network stands still, the scalars are fitted to convergence.

use super::record::{Line, Scalars};
use super::{Event, Trainer};
use crate::episodes::Episodes;
use crate::error::{Error, Result};
use std::sync::atomic::AtomicBool;

impl Trainer {
    /// Fits the scalars of the method on features of some hundred episodes.
    pub(super) fn fit(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let features = episodes.features(self.method.as_ref(), stop)?;
        let fit = self.method.fit_scalars(&features, self.phase.config.fit.iterations)?.ok_or_else(|| {
            let name = self.phase.config.method.name();
            Error::Config(format!(
                "a phase is of kind fit-scalars, but {name} has no scalars that can be fitted"
            ))
        })?;
        self.position.fitted = true;
        let scalars = self.method.scalars();
        self.record.step(&Line::Fit {
            episode: self.position.episode,
            phase: self.phase.name.as_deref(),
            loss_before: fit.before,
            loss: fit.after,
            iterations: fit.iterations,
            converged: fit.converged,
            scalars: Scalars(&scalars),
        })?;
        on(&Event::Fitted { fit, scalars });
        Ok(())
    }
}
