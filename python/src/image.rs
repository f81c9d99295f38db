//! Images as Python gives them.

use crate::value_error;
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use siskin_adapt::{Image, Intake, Look, Model, View};
use siskin_data::fault::Fault;
use std::path::PathBuf;

/// A path, or pixels 0..=255: [H, W], or [H, W, C] of 1 (grey), 3 (RGB) or 4 (RGB and alpha) channels.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    /// Pixels.
    Pixels(PyReadonlyArrayDyn<'py, u8>),
    /// The path of an image file.
    Path(PathBuf),
}

/// An image to read, free of Python.
pub(crate) enum Source {
    /// Pixels.
    Image(Image),
    /// The path of an image file.
    Path(PathBuf),
}

impl Given<'_> {
    /// The pixels copied, a path as it is.
    pub(crate) fn source(self, model: &Model) -> PyResult<Source> {
        let pixels = match self {
            Given::Path(path) => return Ok(Source::Path(path)),
            Given::Pixels(pixels) => pixels,
        };
        let shape = match *pixels.shape() {
            [h, w] if h > 0 && w > 0 => (h, w, 1),
            [h, w, c] if h > 0 && w > 0 && [1, 3, 4].contains(&c) => (h, w, c),
            _ => {
                return Err(value_error(format!(
                    "an image has the shape {:?}; it must be [height, width], or [height, width, channels] with 1, 3 or 4 \
                     channels",
                    pixels.shape()
                )));
            }
        };
        let pixels = pixels.as_array().iter().copied().collect();
        siskin_adapt::from_pixels(model, shape, pixels).map(Source::Image).map_err(value_error)
    }
}

impl Source {
    /// What the image is called: its path, or its place.
    pub(crate) fn name(&self, place: usize) -> String {
        match self {
            Source::Image(_) => format!("image {place}"),
            Source::Path(path) => path.display().to_string(),
        }
    }

    /// What it looks like, where it can be read.
    pub(crate) fn look(&self, intake: &Intake) -> Option<Look> {
        match self {
            Source::Image(image) => Some(Look::of(&image.as_ref())),
            Source::Path(path) => intake.look_file(path).ok(),
        }
    }

    /// What `model` sees of it; a file that cannot be opened is an `OSError`, one that is no image a `ValueError`.
    pub(crate) fn view(self, model: &Model, intake: &Intake) -> PyResult<View> {
        let path = match self {
            Source::Image(image) => return Ok(model.view(&image)),
            Source::Path(path) => path,
        };
        intake.view_file(model, &path).map_err(|fault| {
            let said = format!("{}: {fault}; {}", path.display(), fault.advice());
            match fault {
                Fault::Unreadable { .. } => PyOSError::new_err(said),
                _ => value_error(said),
            }
        })
    }
}
