//! Training, testing and calibrating a method.
