//! Reliability diagrams: how often right, for every degree of confidence.

use siskin_calib::{Bin, Reliability};

use super::axis::{Frame, Ticks};
use super::svg::{Anchor, Area, Svg, fit, text_width};

/// One reliability diagram and the figures written into it.
#[derive(Debug, Clone)]
pub struct ReliabilityPanel<'a> {
    /// Above the diagram: a method, a dataset.
    pub title: String,
    /// The bins, from which ECE and MCE are taken too.
    pub reliability: &'a Reliability,
    /// Negative log-likelihood, if it is to be shown.
    pub nll: Option<f64>,
}

const PLOT: f64 = 230.0;
const LOAD: f64 = 62.0;
const COLUMN: f64 = 300.0;
const PER_ROW: usize = 3;
const TOP: f64 = 56.0;
const ROW: f64 = TOP + PLOT + 14.0 + LOAD + 46.0;
const LEGEND: f64 = 30.0;

/// Diagrams side by side, three per row: bars of accuracy for each bin, the gap to the mean confidence shaded,
/// the diagonal of perfect calibration, and below the share of predictions in each bin.
pub fn reliability_diagrams(panels: &[ReliabilityPanel<'_>]) -> String {
    let columns = panels.len().clamp(1, PER_ROW);
    let rows = panels.len().div_ceil(PER_ROW).max(1);
    let width = (COLUMN * columns as f64 + 24.0).max(420.0);
    let mut svg = Svg::new(width, ROW * rows as f64 + LEGEND);
    let left = (width - COLUMN * columns as f64) / 2.0;
    for (i, panel) in panels.iter().enumerate() {
        let x = left + COLUMN * (i % PER_ROW) as f64;
        draw(&mut svg, panel, (x, ROW * (i / PER_ROW) as f64), i % PER_ROW == 0);
    }
    legend(&mut svg, (width / 2.0, ROW * rows as f64 + 12.0));
    let titles: Vec<&str> = panels.iter().map(|p| p.title.as_str()).collect();
    svg.finish(&format!("Reliability diagrams: {}", titles.join(", ")))
}

fn draw(svg: &mut Svg, panel: &ReliabilityPanel<'_>, (x, y): (f64, f64), first: bool) {
    let plot = Area { x: x + 54.0, y: y + TOP, w: PLOT, h: PLOT };
    let middle = plot.x + PLOT / 2.0;
    svg.text((middle, y + 22.0), Anchor::Middle, "sk-title", &fit(&panel.title, 14.0, COLUMN - 20.0));
    figures(svg, panel, (middle, y + 42.0));

    let frame = Frame::new(plot, (0.0, 1.0), (0.0, 1.0));
    let ticks = Ticks::inside((0.0, 1.0), 5);
    svg.rect(plot, 0.0, "sk-panel");
    frame.y_ticks(svg, &ticks, true);
    for bin in panel.reliability.bins.iter().filter(|b| b.count > 0) {
        accuracy_bar(svg, &frame, bin);
    }
    svg.line(frame.at((0.0, 0.0)), frame.at((1.0, 1.0)), "sk-diagonal");
    frame.x_ticks(svg, &ticks, false);
    if first {
        frame.y_name(svg, "accuracy", 38.0);
    }
    load(svg, panel.reliability, Area { y: plot.bottom() + 14.0, h: LOAD, ..plot }, &ticks, first);
}

/// The bar of one bin, and its gap: red where confidence exceeds accuracy, amber where it falls short.
fn accuracy_bar(svg: &mut Svg, frame: &Frame, bin: &Bin) {
    let (left, right) = (frame.x.at(bin.lower), frame.x.at(bin.upper));
    let slab = |from: f64, to: f64| Area {
        x: left + 0.75,
        y: frame.y.at(to),
        w: right - left - 1.5,
        h: frame.y.at(from) - frame.y.at(to),
    };
    svg.rect(slab(0.0, bin.accuracy.min(bin.confidence)), 0.0, "sk-fill0");
    if bin.confidence > bin.accuracy {
        svg.rect(slab(bin.accuracy, bin.confidence), 0.0, "sk-over sk-gap");
    } else {
        svg.rect(slab(bin.confidence, bin.accuracy), 0.0, "sk-under sk-gap");
    }
    if bin.accuracy > 0.0 {
        svg.rect(Area { h: 2.4, ..slab(0.0, bin.accuracy) }, 0.0, "sk-mark");
    }
}

/// ECE, MCE and NLL in one line below the title.
fn figures(svg: &mut Svg, panel: &ReliabilityPanel<'_>, (middle, y): (f64, f64)) {
    let r = panel.reliability;
    let mut text = format!("ECE {:.3}   MCE {:.3}", r.ece(), r.mce());
    text.extend(panel.nll.map(|nll| format!("   NLL {nll:.3}")));
    // Several spaces would be read as one.
    svg.text((middle, y), Anchor::Middle, "sk-muted", &text.replace("   ", " \u{a0} "));
}

/// The share of predictions in each bin.
fn load(svg: &mut Svg, r: &Reliability, area: Area, ticks: &Ticks, first: bool) {
    let share = |bin: &Bin| bin.count as f64 / r.total.max(1) as f64;
    let top = r.bins.iter().map(share).fold(0.0, f64::max);
    let (shares, range) = Ticks::around((0.0, if top > 0.0 { top } else { 1.0 }), 2);
    let frame = Frame::new(area, (0.0, 1.0), range);
    svg.rect(area, 0.0, "sk-panel");
    frame.y_ticks(svg, &shares, true);
    for bin in &r.bins {
        let (left, right) = (frame.x.at(bin.lower), frame.x.at(bin.upper));
        let y = frame.y.at(share(bin));
        svg.rect(
            Area { x: left + 0.75, y, w: right - left - 1.5, h: area.bottom() - y },
            0.0,
            "sk-fill0 sk-soft",
        );
    }
    frame.x_ticks(svg, ticks, true);
    frame.x_name(svg, "confidence");
    if first {
        frame.y_name(svg, "share", 38.0);
    }
}

fn legend(svg: &mut Svg, (centre, y): (f64, f64)) {
    // The bar is as high as accuracy and confidence go together; the accuracy itself is the line at its foot or its head.
    let entries = [
        ("sk-fill0", "sure and right"),
        ("sk-over sk-gap", "too sure by"),
        ("sk-under sk-gap", "too cautious by"),
        ("sk-mark", "accuracy"),
    ];
    let widths = entries.map(|(_, name)| 16.0 + text_width(name, 11.0) + 16.0);
    let mut x = centre - widths.iter().sum::<f64>() / 2.0;
    for ((class, name), width) in entries.into_iter().zip(widths) {
        let (top, height) = if class == "sk-mark" { (y - 5.0, 3.0) } else { (y - 9.0, 11.0) };
        svg.rect(Area { x, y: top, w: 11.0, h: height }, if height < 5.0 { 0.0 } else { 2.0 }, class);
        svg.text((x + 16.0, y), Anchor::Start, "sk-muted", name);
        x += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::png::render_png;

    fn sample() -> Reliability {
        Reliability::of_confidences(&[0.31, 0.55, 0.95, 0.95], &[false, true, true, false], 15).unwrap()
    }

    #[test]
    fn figures_are_those_of_the_bins() {
        let r = sample();
        let panel = ReliabilityPanel { title: "CUB <5-shot>".into(), reliability: &r, nll: Some(0.51) };
        let svg = reliability_diagrams(&[panel.clone(), panel]);
        // By hand: bins of 0.31 (wrong), 0.55 (right) and twice 0.95 (one right).
        assert!(svg.contains(">ECE 0.415 \u{a0} MCE 0.450 \u{a0} NLL 0.510<"), "{svg}");
        assert!(svg.contains("CUB &lt;5-shot&gt;"));
        assert!(render_png(&svg, 1.0).is_ok());
    }

    #[test]
    fn a_bar_is_as_high_as_its_accuracy() {
        let frame = Frame::new(Area { x: 0.0, y: 0.0, w: 100.0, h: 100.0 }, (0.0, 1.0), (0.0, 1.0));
        let mut svg = Svg::new(100.0, 100.0);
        let bin = Bin { lower: 0.6, upper: 0.8, count: 3, confidence: 0.75, accuracy: 0.25 };
        accuracy_bar(&mut svg, &frame, &bin);
        let text = svg.finish("");
        assert!(
            text.contains("<rect x=\"60.75\" y=\"75\" width=\"18.5\" height=\"25\" class=\"sk-fill0\"/>")
        );
        assert!(text.contains("y=\"25\" width=\"18.5\" height=\"50\" class=\"sk-over sk-gap\"/>"));
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        assert!(render_png(&reliability_diagrams(&[]), 1.0).is_ok());
    }
}
