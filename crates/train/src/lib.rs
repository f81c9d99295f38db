//! Training, testing and calibrating a few-shot method: config, run folder, loop, checkpoints, evaluation, reports.

pub mod atomic;
pub mod batches;
pub mod bench;
pub mod calibration;
pub mod checkpoint;
pub mod compare;
pub mod config;
pub mod curve;
mod error;
pub mod evaluate;
pub mod events;
pub mod plot;
pub mod report;
pub mod run;
pub mod run_folder;
pub mod tasks;
pub mod testing;
pub mod trainer;

pub use error::{Error, Result};
