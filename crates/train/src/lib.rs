//! Training, testing and calibrating a method.

pub mod plot;
