//! Training, testing and calibrating a few-shot method: config, run folder, loop, checkpoints, evaluation, reports.

pub mod atomic;
mod average;
pub mod bench;
pub mod calibration;
pub mod checkpoint;
mod class_batches;
pub mod compare;
pub mod config;
pub mod curve;
pub mod episodes;
mod error;
pub mod evaluate;
pub mod events;
mod exchange;
mod frozen;
pub mod phase;
pub mod plot;
pub mod progress;
pub mod protocol;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod run_data;
pub mod run_folder;
pub mod schedule;
pub mod sweep;
mod synthetic;
pub mod team;
pub mod trainer;
pub mod under_test;

pub use error::{Error, Result};
