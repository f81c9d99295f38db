//! The bar that shows how far long work is; where the output goes to a file, a line every half minute.

use crate::progress_lines::ProgressLines;
use std::sync::Mutex;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use siskin_data::Progress;

/// A bar on standard error, or lines where that is no terminal.
#[derive(Default)]
pub(crate) struct Bar {
    bar: Mutex<Option<Shown>>,
}

/// A bar that is shown, and the lines in its place.
struct Shown {
    bar: ProgressBar,
    pace: ProgressLines,
    done: u64,
}

impl Shown {
    /// Takes steps; the line that is due where there is no bar.
    fn advance(&mut self, steps: u64, now: Instant) -> Option<String> {
        self.done += steps;
        self.bar.inc(steps);
        self.pace.due(self.done, now).filter(|_| self.bar.is_hidden())
    }
}

impl Bar {
    fn with(&self, work: impl FnOnce(&mut Option<Shown>)) {
        // A poisoned lock means that a thread panicked while drawing; the bar is still a bar.
        work(&mut self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl Progress for Bar {
    fn begin(&self, what: &str, total: u64) {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({eta})");
        let bar = ProgressBar::new(total).with_message(crate::out::visible(what).into_owned());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let pace = ProgressLines::of(what, total, Instant::now());
        self.with(|slot| *slot = Some(Shown { bar, pace, done: 0 }));
    }

    fn advance(&self, steps: u64) {
        self.with(|slot| {
            let line = slot.as_mut().and_then(|shown| shown.advance(steps, Instant::now()));
            line.iter().for_each(|line| tell!("{line}"));
        });
    }

    fn end(&self) {
        self.with(|slot| slot.take().iter().for_each(|shown| shown.bar.finish_and_clear()));
    }

    fn note(&self, message: &str) {
        self.with(|slot| match slot {
            Some(shown) => shown.bar.suspend(|| tell!("{message}")),
            None => tell!("{message}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn work_that_nobody_sees_says_how_far_it_is() {
        let start = Instant::now();
        let (bar, pace) = (ProgressBar::hidden(), ProgressLines::of("embedding", 100, start));
        let mut shown = Shown { bar, pace, done: 0 };
        assert_eq!(shown.advance(10, start + Duration::from_secs(10)), None);
        let line = shown.advance(30, start + Duration::from_secs(40)).unwrap();
        assert_eq!(line, "embedding 40/100 (40 %)  1.0 per s  60 s left");
    }
}
