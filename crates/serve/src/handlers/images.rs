//! The images of a request: how many may come, and what a network sees of them.

use crate::App;
use crate::error::{Refusal, Reply};
use crate::work::Job;
use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::Value;
use siskin_adapt::{Mismatch, Model, View};
use siskin_data::image::decode::claim;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Seconds of a core that a request gets before others have their turn.
const TURN: f64 = 0.1;

/// What opening an image told: asked once for each, in turns, for some headers are dear to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    pixels: u64,
    /// Seconds that it took; to decode the image takes them again.
    seconds: f64,
}

impl Opened {
    /// What is no image claims no pixels: it is refused when its turn comes.
    fn of(bytes: &[u8]) -> Opened {
        let begun = Instant::now();
        let pixels = claim(bytes).map_or(0, |claim| claim.pixels());
        Opened { pixels, seconds: begun.elapsed().as_secs_f64() }
    }
}

/// Opens the images of a request. Refuses one with too many images, or too many pixels by what their headers claim.
pub(super) async fn open(app: &App, job: &mut Job<'_>, images: Vec<Bytes>) -> Reply<Vec<Opened>> {
    let (count, most) = (images.len(), app.limits.max_images);
    if count == 0 {
        return Err(Refusal::bad("there is no image in the request"));
    }
    if count > most {
        return Err(Refusal::bad(format!("{count} images were sent; at most {most} are taken at a time")));
    }
    let (images, mut opened) = (Arc::new(images), Vec::with_capacity(count));
    while opened.len() < count {
        let (images, first) = (images.clone(), opened.len());
        let some = job.turn(move |late| {
            let mut left = TURN;
            let mut some = Vec::new();
            for image in images.iter().skip(first) {
                stop_if(late)?;
                let one = Opened::of(image);
                some.push(one);
                left -= one.seconds;
                if left < 0.0 {
                    break;
                }
            }
            Ok(some)
        });
        opened.extend(some.await?);
    }
    let (pixels, most) = (opened.iter().map(|one| one.pixels).sum::<u64>(), app.limits.request_pixels);
    if pixels > most {
        let why = format!(
            "the images have {} megapixels together, at most {} are taken at a time; send fewer or smaller ones",
            pixels / 1_000_000,
            most / 1_000_000
        );
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(opened)
}

/// What the network sees of an image, or why nothing; an error of the request once nobody waits for its answer.
pub(super) fn view(app: &App, model: &Model, bytes: &[u8], late: &AtomicBool) -> Reply<Result<View, String>> {
    stop_if(late)?;
    Ok(app.intake.view(model, bytes).map_err(|fault| format!("{fault}; {}", fault.advice())))
}

/// Seconds that an image takes to be decoded and to go through a network, roughly: by its header, its pixels and the network's input.
pub(super) fn image_seconds(model: &Model, opened: &Opened) -> f64 {
    let (side, channels) = model.input();
    opened.seconds + 3e-8 * opened.pixels as f64 + 1e-6 * f64::from(side * side) * channels as f64
}

/// Splits a request's images into turns of about [`TURN`] seconds, at least one image each.
pub(super) fn turns(images: Vec<Bytes>, seconds: impl IntoIterator<Item = f64>) -> Vec<Vec<Bytes>> {
    let mut turns: Vec<Vec<Bytes>> = Vec::new();
    let mut left = 0.0;
    for (image, cost) in images.into_iter().zip(seconds) {
        match turns.last_mut() {
            Some(turn) if cost <= left => turn.push(image),
            _ => {
                turns.push(vec![image]);
                left = TURN;
            }
        }
        left -= cost;
    }
    turns
}

pub(super) fn stop_if(late: &AtomicBool) -> Reply<()> {
    match late.load(Ordering::Relaxed) {
        true => Err(siskin_adapt::Error::Stopped.into()),
        false => Ok(()),
    }
}

pub(super) fn warnings(mismatch: Option<Mismatch>) -> Value {
    mismatch.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_keep_the_order_and_the_time() {
        let images: Vec<Bytes> = (0..10u8).map(|i| Bytes::from(vec![i])).collect();
        let cost = |image: &Bytes| if image[0] == 4 { 10.0 * TURN } else { TURN / 3.0 };
        let split = turns(images.clone(), images.iter().map(cost));
        assert_eq!(split.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 1, 3, 2]);
        assert_eq!(split.concat(), images);
    }
}
