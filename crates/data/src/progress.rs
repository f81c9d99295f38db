//! How long work tells whoever asked for it how far it is.

/// Told of the steps of long work. Libraries print nothing: what to show is the caller's business.
pub trait Progress: Sync {
    /// Work of `total` steps begins.
    fn begin(&self, what: &str, total: u64);
    /// `steps` more are done.
    fn advance(&self, steps: u64);
    /// The work is over.
    fn end(&self);
    /// Something a person should know: a cache rebuilt, files left out.
    fn note(&self, message: &str);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn end(&self) {}
    fn note(&self, _message: &str) {}
}
