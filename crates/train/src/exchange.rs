//! What ranks send each other of a test or a validation: features of images, answers to episodes.

use crate::error::{Error, Result};
use crate::evaluate::AnsweredEpisode;
use crate::team::{self, Team};
use siskin_methods::message::{Reader, Writer};
use siskin_methods::{Features, LatentGaussians, Pixels, Prediction, Rows};
use std::sync::atomic::AtomicBool;

/// The answers of all ranks, in order.
pub(crate) fn answers(
    team: &dyn Team,
    own: Result<Vec<AnsweredEpisode>>,
    stop: &AtomicBool,
) -> Result<Vec<AnsweredEpisode>> {
    if team.size() == 1 {
        return own;
    }
    let bytes = own.map(|answers| {
        let mut out = Writer::default();
        out.length(answers.len());
        answers.iter().for_each(|answer| put_answer(&mut out, answer));
        out.done()
    });
    let mut all = Vec::new();
    for message in team::gather(team, bytes, stop)? {
        let mut rest = Reader::new(&message);
        for _ in 0..rest.length()? {
            all.push(answer(&mut rest)?);
        }
    }
    Ok(all)
}

fn put_answer(out: &mut Writer, answer: &AnsweredEpisode) {
    let Prediction { probabilities, way, latent } = &answer.prediction;
    out.length(*way);
    out.f64s(probabilities);
    out.length(answer.labels.len());
    answer.labels.iter().for_each(|label| out.length(*label));
    out.length(usize::from(latent.is_some()));
    if let Some(latent) = latent {
        out.f64s(&latent.mean);
        out.f64s(&latent.variance);
        out.f64s(&[latent.tau]);
    }
}

fn answer(rest: &mut Reader<'_>) -> Result<AnsweredEpisode> {
    let (way, probabilities) = (rest.length()?, rest.f64s()?);
    let count = rest.length()?;
    let labels = (0..count).map(|_| Ok(rest.length()?)).collect::<Result<_>>()?;
    let latent = match rest.length()? {
        0 => None,
        _ => {
            let (mean, variance) = (rest.f64s()?, rest.f64s()?);
            Some(LatentGaussians { mean, variance, tau: rest.f64s()?.first().copied().unwrap_or(f64::NAN) })
        }
    };
    Ok(AnsweredEpisode { prediction: Prediction { probabilities, way, latent }, labels })
}

/// The rows of all ranks, one below the other.
pub(crate) fn rows(team: &dyn Team, own: Result<Rows>, stop: &AtomicBool) -> Result<Rows> {
    if team.size() == 1 {
        return own;
    }
    let bytes = own.map(|rows| {
        let mut out = Writer::default();
        out.length(rows.count());
        match &rows {
            Rows::Features(features) => {
                out.length(features.dim);
                out.f64s(&features.values);
            }
            Rows::Pixels(pixels) => {
                out.length(0);
                pixels.shape.iter().for_each(|size| out.length(*size));
                out.f32s(&pixels.values);
            }
        }
        out.done()
    });
    let mut parts = Vec::new();
    for message in team::gather(team, bytes, stop)? {
        let mut rest = Reader::new(&message);
        let rows = rest.length()?;
        // A rank without images does not know how long a row is.
        if rows > 0 {
            parts.push(match rest.length()? {
                0 => {
                    let shape = [rest.length()?, rest.length()?, rest.length()?];
                    Rows::Pixels(Pixels { values: rest.f32s()?, rows, shape })
                }
                dim => Rows::Features(Features { values: rest.f64s()?, rows, dim }),
            });
        }
    }
    Rows::stack(parts)?.ok_or_else(|| Error::Run("there are no images".into()))
}
