//! The curves of a training.

use crate::curve::Curve;
use crate::error::Result;
use crate::plot::{LineChart, ReportBlock, Section, Series};
use std::path::Path;

/// Points of a curve, at most: as many steps are averaged as that takes.
const POINTS: usize = 150;

/// The section of the run in `folder`: the loss (a mean of steps), and accuracy and NLL in validation. Nothing where the folder
/// has no metrics, or none of steps.
pub(super) fn section(folder: &Path) -> Result<Option<Section>> {
    if !folder.join("metrics.jsonl").exists() {
        return Ok(None);
    }
    let Curve { losses, accuracies, nlls } = Curve::read(folder)?;
    if losses.is_empty() {
        return Ok(None);
    }
    let steps = losses.len().div_ceil(POINTS);
    let smooth = losses.chunks(steps);
    let smooth =
        smooth.map(|c| (c[c.len() - 1].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64)).collect();
    let mut blocks = Vec::new();
    let caption = match steps {
        1 => "The loss of each step.".into(),
        _ => format!("Each point of the loss is the mean of {steps} steps."),
    };
    if accuracies.is_empty() {
        blocks.push(chart("loss", vec![("training loss", smooth)], caption));
        blocks.push(ReportBlock::Text("There was no validation (train.validate_every = 0).".into()));
    } else {
        blocks.push(chart("validation accuracy", vec![("validation accuracy", accuracies)], String::new()));
        blocks.push(chart(
            "loss and NLL",
            vec![("training loss", smooth), ("validation NLL", nlls)],
            caption,
        ));
    }
    Ok(Some(Section { heading: "Training".into(), blocks }))
}

fn chart(y_name: &str, series: Vec<(&str, Vec<(f64, f64)>)>, caption: String) -> ReportBlock {
    let series =
        series.into_iter().map(|(name, points)| Series { name: name.into(), points, spread: vec![] });
    let chart = LineChart {
        title: String::new(),
        x_name: "training episodes".into(),
        y_name: y_name.into(),
        series: series.collect(),
    };
    ReportBlock::Chart { svg: chart.svg(), caption }
}
