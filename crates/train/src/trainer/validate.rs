//! Validation: the model, with averaged weights where they are averaged, on the validation episodes; the best one is kept.

use super::record::Line;
use super::{Event, Trainer};
use crate::checkpoint::{self, Best};
use crate::config::Select;
use crate::episodes::{Episodes, Validation};
use crate::error::Result;
use siskin_methods::Method;
use std::sync::atomic::AtomicBool;

impl Trainer {
    /// Validates; where `stop` is set the validation stays due.
    pub(super) fn validate(
        &mut self,
        episodes: &mut dyn Episodes,
        stop: &AtomicBool,
        on: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let measured = match self.as_model(|method| episodes.validate(method, stop))? {
            Validation::Measured { accuracy, nll } => Some((accuracy, nll)),
            Validation::NotFinite => None,
            Validation::Stopped => return Ok(()),
        };
        self.position.validation_due = false;
        let episode = self.position.episode;
        let found = measured.map(|(accuracy, nll)| Best { accuracy, nll: Some(nll), episode });
        let select = self.phase.config.train.select;
        let new_best = found.filter(|found| is_better(found, self.position.best.as_ref(), select));
        let (accuracy, nll, best) = (measured.map(|m| m.0), measured.map(|m| m.1), new_best.is_some());
        let phase = self.phase.name.as_deref();
        self.record.validation(&Line::Validation { episode, phase, accuracy, nll, best })?;
        if measured.is_none() {
            self.position.validations_without_accuracy += 1;
        }
        if new_best.is_some() {
            self.position.best = new_best;
            self.position.metrics_bytes = self.record.flush()?;
            if self.average.is_some() {
                // The best model is an average, from which training cannot go on.
                self.save()?;
            }
            checkpoint::save(&self.folder.best(), &self.position, &self.model())?;
        }
        on(&Event::Validated { episode, accuracy, nll, best });
        Ok(())
    }

    /// Does `work` with the model, see [`Trainer::model`].
    fn as_model<T>(&mut self, work: impl FnOnce(&dyn Method) -> Result<T>) -> Result<T> {
        let Some(average) = &self.average else { return work(self.method.as_ref()) };
        let newest = self.method.state();
        self.method.load_state(&average.model(&newest))?;
        let result = work(self.method.as_ref());
        self.method.load_state(&newest)?;
        result
    }
}

/// Whether a validation beats the best one so far.
pub(super) fn is_better(found: &Best, best: Option<&Best>, select: Select) -> bool {
    best.is_none_or(|best| match select {
        Select::Accuracy => found.accuracy > best.accuracy,
        Select::Nll => found.nll.unwrap_or(f64::INFINITY) < best.nll.unwrap_or(f64::INFINITY),
    })
}
