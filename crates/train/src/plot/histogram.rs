//! Histograms with a kernel density estimate, one panel each, on common axes.

use super::axis::{Frame, Ticks};
use super::svg::{Anchor, Area, Svg};
use super::theme::SERIES;

/// The values of one panel.
#[derive(Debug, Clone)]
pub struct HistogramPanel {
    /// Above the panel.
    pub name: String,
    /// The values; those outside the range are not shown but count in the density.
    pub values: Vec<f64>,
}

/// Several histograms on common axes.
#[derive(Debug, Clone)]
pub struct Histograms {
    /// Above the panels.
    pub title: String,
    /// Name of the x axis.
    pub x_name: String,
    /// Range of the x axis.
    pub range: (f64, f64),
    /// How many bars in the range.
    pub bars: usize,
    /// The panels.
    pub panels: Vec<HistogramPanel>,
}

const PANEL: (f64, f64) = (290.0, 130.0);
const CELL: (f64, f64) = (350.0, 200.0);

impl Histograms {
    /// The panels, two per row, with the same scales throughout.
    pub fn svg(&self) -> String {
        let columns = self.panels.len().clamp(1, 2);
        let rows = self.panels.len().div_ceil(2).max(1);
        let mut svg = Svg::new(CELL.0 * columns as f64 + 20.0, CELL.1 * rows as f64 + 40.0);
        svg.text((20.0, 24.0), Anchor::Start, "sk-title", &self.title);
        let densities: Vec<Vec<f64>> = self.panels.iter().map(|p| self.density(&p.values)).collect();
        let top = densities.iter().flatten().copied().fold(0.0, f64::max);
        let (ticks, y_range) = Ticks::around((0.0, if top > 0.0 { top } else { 1.0 }), 4);
        for (i, (panel, density)) in self.panels.iter().zip(&densities).enumerate() {
            let area = Area {
                x: CELL.0 * (i % 2) as f64 + 56.0,
                y: CELL.1 * (i / 2) as f64 + 62.0,
                w: PANEL.0,
                h: PANEL.1,
            };
            let frame = Frame::new(area, self.range, y_range);
            svg.rect(area, 0.0, "sk-panel");
            frame.y_ticks(&mut svg, &ticks, true);
            self.bars(&mut svg, &frame, density, i % SERIES);
            self.curve(&mut svg, &frame, &panel.values, (i % SERIES, y_range.1));
            frame.x_ticks(&mut svg, &Ticks::inside(self.range, 5), true);
            frame.x_name(&mut svg, &self.x_name);
            if i % 2 == 0 {
                frame.y_name(&mut svg, "density", 40.0);
            }
            svg.text((area.x, area.y - 8.0), Anchor::Start, "sk-head", &panel.name);
            if let Some(mean) = mean(&panel.values) {
                let text = format!("mean {mean:.3}");
                svg.text((area.right(), area.y - 8.0), Anchor::End, "sk-muted", &text);
            }
        }
        svg.finish(&self.title)
    }

    fn bar_width(&self) -> f64 {
        (self.range.1 - self.range.0) / self.bars.max(1) as f64
    }

    /// Counts over (number of values × bar width), for each bar; the upper end of the range is in the last.
    fn density(&self, values: &[f64]) -> Vec<f64> {
        let mut counts = vec![0.0; self.bars.max(1)];
        let last = counts.len() - 1;
        let inside = |v: &&f64| **v >= self.range.0 && **v <= self.range.1;
        for v in values.iter().filter(inside) {
            let bar = ((v - self.range.0) / self.bar_width()) as usize;
            counts[bar.min(last)] += 1.0;
        }
        let mass = values.len().max(1) as f64 * self.bar_width();
        counts.iter().map(|count| count / mass).collect()
    }

    fn bars(&self, svg: &mut Svg, frame: &Frame, density: &[f64], colour: usize) {
        for (i, &height) in density.iter().enumerate().filter(|(_, height)| **height > 0.0) {
            let edge = |i: usize| frame.x.at(self.range.0 + i as f64 * self.bar_width());
            let y = frame.y.at(height);
            let bar = Area { x: edge(i), y, w: edge(i + 1) - edge(i) - 0.6, h: frame.area.bottom() - y };
            svg.rect(bar, 0.0, &format!("sk-fill{colour} sk-soft"));
        }
    }

    fn curve(&self, svg: &mut Svg, frame: &Frame, values: &[f64], (colour, top): (usize, f64)) {
        let Some(width) = scott_width(values) else { return };
        let steps = 240;
        let at = |i: usize| self.range.0 + (self.range.1 - self.range.0) * i as f64 / steps as f64;
        let points: Vec<_> =
            (0..=steps).map(|i| frame.at((at(i), kernel_density(values, width, at(i)).min(top)))).collect();
        svg.polyline(&points, &format!("sk-line{colour}"));
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Scott's rule `s n^(-1/5)`; `None` where there is no spread to estimate.
fn scott_width(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let n = values.len() as f64;
    let s = (values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    (s > 0.0 && s.is_finite()).then(|| s * n.powf(-0.2))
}

/// `1/(n h) sum_i phi((x - x_i) / h)`, phi the standard normal density.
fn kernel_density(values: &[f64], h: f64, x: f64) -> f64 {
    let sum: f64 = values.iter().map(|v| (-0.5 * ((x - v) / h).powi(2)).exp()).sum();
    sum / (values.len() as f64 * h * std::f64::consts::TAU.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: Vec<f64>) -> Histograms {
        let panels = vec![HistogramPanel { name: "softmax".into(), values }];
        Histograms { title: "t".into(), x_name: "x".into(), range: (0.0, 1.0), bars: 4, panels }
    }

    #[test]
    fn densities_hold_the_mass_inside() {
        let values = vec![0.0, 0.1, 0.25, 0.5, 1.0, 2.0, f64::NAN];
        let density = chart(vec![]).density(&values);
        let counts: Vec<f64> = density.iter().map(|d| (d * 0.25 * 7.0).round()).collect();
        assert_eq!(counts, [2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn the_density_estimate_is_that_of_scipy() {
        // scipy.stats.gaussian_kde([0.2, 0.3, 0.35, 0.7]) at 0.4, Scott's rule.
        let values = [0.2, 0.3, 0.35, 0.7];
        let got = kernel_density(&values, scott_width(&values).unwrap(), 0.4);
        assert!((got - 1.486_588_016_492_866_2).abs() < 1e-12, "{got}");
    }

    #[test]
    fn values_without_spread_have_bars_but_no_curve() {
        let svg = chart(vec![0.5; 9]).svg();
        assert!(!svg.contains("class=\"sk-line0\"") && svg.contains("sk-fill0"));
        assert!(chart(vec![]).svg().contains("softmax"));
    }
}
