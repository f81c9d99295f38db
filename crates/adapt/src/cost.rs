//! What a task costs, told before it is paid: from its numbers of classes and examples alone.
//!
//! The factors are from the times and peaks of `siskin adapt` and `siskin predict` on folders of 5 to 250 classes with 5 to 500
//! drawings together; on the machine they were taken from they are about twice the time and a fifth more than the memory.
//! They need not be exact: they decide what is refused, and who waits for whom.

use crate::error::{Error, Result};

/// A task takes at most so many classes and examples, whatever they cost.
const MOST_EXAMPLES: usize = 2_000;

/// Bounds on one fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitLimits {
    /// Seconds of one core.
    pub seconds: f64,
    /// Bytes at its peak.
    pub bytes: f64,
}

impl FitLimits {
    /// What a person at a terminal may ask for: ten minutes, 4 GB.
    pub const TERMINAL: FitLimits = FitLimits { seconds: 600.0, bytes: 4e9 };
}

/// The shape of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of classes.
    pub classes: usize,
    /// Number of labelled examples.
    pub examples: usize,
}

impl Shape {
    fn floats(self) -> (f64, f64) {
        (self.classes as f64, self.examples as f64)
    }

    /// Seconds of one fit on one core: the integrals over classes at each example, and products of matrices.
    pub fn fit_seconds(self) -> f64 {
        let (classes, examples) = self.floats();
        2e-4 * classes * examples * (1.0 + examples * examples / 2e4)
    }

    /// Bytes of one fit at its peak: about twenty matrices of examples x examples per class.
    pub fn fit_bytes(self) -> f64 {
        let (classes, examples) = self.floats();
        20.0 * 8.0 * classes * examples * examples
    }

    /// Bytes of a task that is ready to answer: about five such matrices per class, and its features.
    pub fn held_bytes(self, width: usize) -> f64 {
        let (classes, examples) = self.floats();
        8.0 * examples * (5.0 * classes * examples + 2.0 * width as f64)
    }

    /// Seconds of one answer on one core.
    pub fn answer_seconds(self) -> f64 {
        let (classes, examples) = self.floats();
        classes * (1e-5 + 4e-10 * examples * examples)
    }

    /// Refuses a task that is too large, with what it would cost.
    pub fn check(self, limits: &FitLimits) -> Result<()> {
        let Shape { classes, examples } = self;
        if classes.max(examples) > MOST_EXAMPLES {
            return Err(Error::Support(format!(
                "{examples} examples of {classes} classes were given, a task takes at most {MOST_EXAMPLES}. Take fewer of \
                 each class: with this many, an ordinary classifier is the better tool."
            )));
        }
        let (seconds, bytes) = (self.fit_seconds(), self.fit_bytes());
        if seconds <= limits.seconds && bytes <= limits.bytes {
            return Ok(());
        }
        Err(Error::Support(format!(
            "{examples} examples of {classes} classes would take about {} s of one core and {} MB; at most {} s and {} MB are \
             taken. Give fewer classes or fewer examples.",
            seconds.ceil(),
            (bytes / 1e6).ceil(),
            limits.seconds,
            limits.bytes / 1e6
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tasks_pass_and_large_ones_are_told_their_price() {
        let check = |classes, examples| Shape { classes, examples }.check(&FitLimits::TERMINAL);
        assert!(check(5, 25).is_ok() && check(2, 1_000).is_ok() && check(100, 300).is_ok());
        let error = check(500, 500).unwrap_err().to_string();
        assert!(
            error.contains("500 examples of 500 classes would take about 675 s")
                && error.contains("20000 MB"),
            "{error}"
        );
        assert!(check(2, 2_001).unwrap_err().to_string().contains("at most 2000"));
        assert!(check(3_000, 3).is_err());
    }
}
