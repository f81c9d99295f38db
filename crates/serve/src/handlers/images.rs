//! The images of a request: how many may come, and what a network sees of them.

use crate::App;
use crate::error::{Answer, Refusal};
use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::Value;
use siskin_adapt::{Mismatch, Model, View};
use siskin_data::image::decode::claim;
use std::sync::atomic::{AtomicBool, Ordering};

/// Refuses a request with too many images, or too many pixels by what their headers claim. What is no image claims none: it
/// is refused when its turn comes.
pub fn check_images<'a>(app: &App, images: impl ExactSizeIterator<Item = &'a Bytes>) -> Answer<()> {
    let (count, most) = (images.len(), app.limits.max_images);
    if count == 0 {
        return Err(Refusal::bad("there is no image in the request"));
    }
    if count > most {
        return Err(Refusal::bad(format!("{count} images were sent; at most {most} are taken at a time")));
    }
    let (pixels, most) =
        (images.map(|bytes| claim(bytes).map_or(0, |c| c.pixels())).sum::<u64>(), app.limits.request_pixels);
    if pixels > most {
        let why = format!(
            "the images have {} megapixels together, at most {} are taken at a time; send fewer or smaller ones",
            pixels / 1_000_000,
            most / 1_000_000
        );
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(())
}

/// What the network sees of an image, or why nothing; an error of the request once nobody waits for its answer.
pub fn view(app: &App, model: &Model, bytes: &[u8], late: &AtomicBool) -> Answer<Result<View, String>> {
    stop_if(late)?;
    Ok(app.intake.view(model, bytes).map_err(|fault| format!("{fault}; {}", fault.advice())))
}

pub fn stop_if(late: &AtomicBool) -> Answer<()> {
    match late.load(Ordering::Relaxed) {
        true => Err(siskin_adapt::Error::Stopped.into()),
        false => Ok(()),
    }
}

pub fn warnings(mismatch: Option<Mismatch>) -> Value {
    mismatch.iter().map(ToString::to_string).collect()
}
