//! The bar that shows how far long work is.

use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};
use siskin_data::Progress;

/// A bar on standard error; none where that is no terminal.
#[derive(Default)]
pub(crate) struct Bar {
    bar: Mutex<Option<ProgressBar>>,
}

impl Bar {
    fn with(&self, work: impl FnOnce(&mut Option<ProgressBar>)) {
        // A poisoned lock means that a thread panicked while drawing; the bar is still a bar.
        work(&mut self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl Progress for Bar {
    fn begin(&self, what: &str, total: u64) {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({eta})");
        let bar = ProgressBar::new(total).with_message(crate::out::visible(what).into_owned());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.with(|slot| *slot = Some(bar));
    }

    fn advance(&self, steps: u64) {
        self.with(|slot| slot.iter().for_each(|bar| bar.inc(steps)));
    }

    fn end(&self) {
        self.with(|slot| slot.take().iter().for_each(ProgressBar::finish_and_clear));
    }

    fn note(&self, message: &str) {
        self.with(|slot| match slot {
            Some(bar) => bar.suspend(|| tell!("{message}")),
            None => tell!("{message}"),
        });
    }
}
