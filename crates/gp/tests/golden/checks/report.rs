//! Counts cases and prints each with its largest error beside its tolerance.

// Each crate that includes this file uses a part of it.
#![allow(dead_code)]

/// What was checked so far.
#[derive(Default)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
    unknown: usize,
}

/// One case: several comparisons, of which the worst is shown.
#[derive(Default)]
pub(crate) struct Case {
    /// error / tolerance, the error, the tolerance, what was compared
    worst: Option<(f64, f64, f64, String)>,
}

impl Report {
    /// Runs one case and prints its line.
    pub(crate) fn case(&mut self, name: &str, run: impl FnOnce(&mut Case)) {
        let mut case = Case::default();
        run(&mut case);
        match case.worst {
            None => self.failure(&format!("{name}: nothing was compared")),
            Some((ratio, error, tolerance, what)) => {
                let ok = ratio <= 1.0;
                let word = if ok { "ok    " } else { "FAILED" };
                println!("{word} {name:<48} {what:<16} error {error:9.2e}   tolerance {tolerance:8.1e}");
                self.passed += usize::from(ok);
                self.failed += usize::from(!ok);
            }
        }
    }

    /// A failure that is no comparison.
    pub(crate) fn failure(&mut self, message: &str) {
        println!("FAILED {message}");
        self.failed += 1;
    }

    /// A file nobody knows how to check.
    pub(crate) fn unknown(&mut self, path: &str) {
        println!("       {path}: unknown file, not checked");
        self.unknown += 1;
    }

    /// Prints the last line; whether something was checked and nothing failed.
    pub(crate) fn finish(self) -> bool {
        if self.unknown > 0 {
            println!("{} unknown files were not checked", self.unknown);
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0 && self.passed > 0
    }
}

impl Case {
    /// `error <= tolerance`; no error is within any tolerance, a NaN within none.
    pub(crate) fn error(&mut self, what: &str, error: f64, tolerance: f64) {
        let ratio = match quotient(error, tolerance) {
            ratio if ratio.is_nan() => f64::INFINITY,
            ratio => ratio,
        };
        if self.worst.as_ref().is_none_or(|(worst, ..)| ratio > *worst) {
            self.worst = Some((ratio, error, tolerance, what.to_owned()));
        }
    }

    /// `max |got - want| <= tolerance`.
    pub(crate) fn abs(&mut self, what: &str, got: &[f64], want: &[f64], tolerance: f64) {
        let error = if got.len() == want.len() { max_difference(got, want) } else { f64::NAN };
        self.error(what, error, tolerance);
    }

    /// `max |got - want| / max |want| <= tolerance`; absolute where the reference is all zero.
    pub(crate) fn rel(&mut self, what: &str, got: &[f64], want: &[f64], tolerance: f64) {
        let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let scale = if largest > 0.0 { largest } else { 1.0 };
        let error = if got.len() == want.len() { max_difference(got, want) / scale } else { f64::NAN };
        self.error(what, error, tolerance);
    }

    /// `|got - want| / scale <= tolerance`.
    pub(crate) fn rel_to(&mut self, what: &str, got: f64, want: f64, scale: f64, tolerance: f64) {
        self.error(what, quotient((got - want).abs(), scale), tolerance);
    }

    /// `|got - want| / max(1, |want|) <= tolerance`, for bounds and other sums that may pass through 0.
    pub(crate) fn rel1(&mut self, what: &str, got: f64, want: f64, tolerance: f64) {
        self.rel_to(what, got, want, want.abs().max(1.0), tolerance);
    }

    /// A condition that must hold.
    pub(crate) fn holds(&mut self, what: &str, condition: bool) {
        self.error(what, f64::from(u8::from(!condition)), 0.0);
    }

    /// A step that must succeed; its error fails the case.
    pub(crate) fn try_run<T, E: std::fmt::Display>(&mut self, what: &str, result: Result<T, E>) -> Option<T> {
        result
            .inspect_err(|error| {
                println!("       {what}: {error}");
                self.error(what, f64::NAN, 0.0);
            })
            .ok()
    }
}

/// `error / by`; 0 where there is no error.
fn quotient(error: f64, by: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / by }
}

/// NaN if any difference is NaN.
fn max_difference(got: &[f64], want: &[f64]) -> f64 {
    got.iter().zip(want).fold(0.0, |worst: f64, (g, w)| {
        let d = (g - w).abs();
        if d.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(d) }
    })
}
