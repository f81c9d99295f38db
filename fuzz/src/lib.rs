//! What is fuzzed: for each reader of foreign bytes a function that must return, whatever it is given, and whole inputs to begin with.

mod harness;
mod memory;
mod seeds;
mod targets;

pub use harness::{Length, campaign};

/// A reader of foreign bytes.
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Reads the bytes; it must return, soon and without taking much memory.
    pub run: fn(&[u8]),
    /// How many megabytes are much.
    pub memory: u64,
    /// Whole inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = targets::ALL;

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
