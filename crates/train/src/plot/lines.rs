//! Line charts: training curves, accuracy against steps.

use super::axis::{Frame, Ticks, extent};
use super::svg::{Anchor, Area, Svg, text_width};
use super::theme::SERIES;

/// One line of a chart.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// `(x, y)` in the order to be joined. A value that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
    /// Half the height of a band about each point (a standard deviation); empty for none.
    pub spread: Vec<f64>,
}

/// A chart of one or more lines.
#[derive(Debug, Clone, Default)]
pub struct LineChart {
    /// Above the chart.
    pub title: String,
    /// Name of the x axis.
    pub x_name: String,
    /// Name of the y axis.
    pub y_name: String,
    /// The lines.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 640.0;
const PLOT: Area = Area { x: 66.0, y: 0.0, w: 556.0, h: 250.0 };

impl LineChart {
    /// The chart.
    pub fn svg(&self) -> String {
        let legend_rows = self.legend_rows();
        let top = 40.0 + 20.0 * legend_rows.len() as f64;
        let area = Area { y: top, ..PLOT };
        let mut svg = Svg::new(WIDTH, area.bottom() + 46.0);
        svg.text((area.x, 24.0), Anchor::Start, "sk-title", &self.title);
        for (row, entries) in legend_rows.iter().enumerate() {
            self.legend(&mut svg, entries, 46.0 + 20.0 * row as f64);
        }

        let all = || self.series.iter().flat_map(band_points);
        let finite = || all().filter(|p| p.0.is_finite() && p.1.is_finite());
        let x_range = extent(finite().map(|p| p.0));
        let (Some(x_range), Some(y_range)) = (x_range, extent(finite().map(|p| p.1))) else {
            svg.rect(area, 0.0, "sk-panel");
            let centre = (area.x + area.w / 2.0, area.y + area.h / 2.0);
            svg.text(centre, Anchor::Middle, "sk-muted", "no data");
            return svg.finish(&self.title);
        };
        let (y_ticks, y_range) = Ticks::around(y_range, 5);
        let frame = Frame::new(area, x_range, y_range);
        svg.rect(area, 0.0, "sk-panel");
        frame.y_ticks(&mut svg, &y_ticks, true);
        frame.x_ticks(&mut svg, &Ticks::inside(x_range, 8), true);
        frame.x_name(&mut svg, &self.x_name);
        frame.y_name(&mut svg, &self.y_name, 50.0);
        for (i, series) in self.series.iter().enumerate() {
            draw(&mut svg, &frame, series, i % SERIES);
        }
        svg.finish(&self.title)
    }

    /// Indices of the series for each row of the legend; none for a single line, which the title names.
    fn legend_rows(&self) -> Vec<Vec<usize>> {
        let mut rows: Vec<Vec<usize>> = Vec::new();
        let mut used = f64::INFINITY;
        if self.series.len() < 2 {
            return rows;
        }
        for (i, series) in self.series.iter().enumerate() {
            let width = entry_width(&series.name);
            if used + width > PLOT.w {
                rows.push(Vec::new());
                used = 0.0;
            }
            used += width;
            rows.iter_mut().last().into_iter().for_each(|row| row.push(i));
        }
        rows
    }

    fn legend(&self, svg: &mut Svg, entries: &[usize], y: f64) {
        let mut x = PLOT.x;
        for &i in entries {
            svg.line((x, y - 4.0), (x + 18.0, y - 4.0), &format!("sk-line{}", i % SERIES));
            svg.text((x + 24.0, y), Anchor::Start, "", &self.series[i].name);
            x += entry_width(&self.series[i].name);
        }
    }
}

/// Wide enough for the larger letters that a page has on a phone.
fn entry_width(name: &str) -> f64 {
    24.0 + text_width(name, 16.0) + 16.0
}

/// The points with both ends of their bands.
fn band_points(series: &Series) -> impl Iterator<Item = (f64, f64)> + '_ {
    let spread = series.spread.iter().copied().chain(std::iter::repeat(0.0));
    series.points.iter().zip(spread).flat_map(|(&(x, y), s)| [(x, y - s), (x, y + s)])
}

/// The band, the line in its unbroken runs, and dots where the points are few.
fn draw(svg: &mut Svg, frame: &Frame, series: &Series, colour: usize) {
    let spread = series.spread.iter().copied().chain(std::iter::repeat(0.0));
    let points: Vec<(f64, f64, f64)> =
        series.points.iter().zip(spread).map(|(&(x, y), s)| (x, y, s)).collect();
    let dots = points.len() <= 25;
    for run in points.split(|p| !(p.0.is_finite() && p.1.is_finite() && p.2.is_finite())) {
        if !series.spread.is_empty() && run.len() > 1 {
            let upper = run.iter().map(|&(x, y, s)| frame.at((x, y + s)));
            let lower = run.iter().rev().map(|&(x, y, s)| frame.at((x, y - s)));
            let band: Vec<_> = upper.chain(lower).collect();
            svg.polygon(&band, &format!("sk-fill{colour} sk-band"));
        }
        let line: Vec<_> = run.iter().map(|&(x, y, _)| frame.at((x, y))).collect();
        svg.polyline(&line, &format!("sk-line{colour}"));
        if dots || line.len() == 1 {
            line.iter().for_each(|&at| svg.dot(at, 3.0, &format!("sk-fill{colour}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::png::render_png;

    fn chart(points: Vec<(f64, f64)>, spread: Vec<f64>) -> String {
        let series = Series { name: "CUB".into(), points, spread };
        LineChart { title: "t".into(), series: vec![series.clone(), series], ..LineChart::default() }.svg()
    }

    #[test]
    fn a_gap_splits_the_line() {
        let whole = chart(vec![(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)], vec![]);
        let split = chart(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 4.0)], vec![]);
        let lines = |svg: &str| svg.matches("class=\"sk-line0\"").count();
        // One more each for the legend.
        assert_eq!((lines(&whole), lines(&split)), (2, 3));
        assert!(!split.contains("NaN"));
    }

    #[test]
    fn the_frame_holds_the_bands() {
        let svg = chart(vec![(1.0, 64.0), (2.0, 65.0)], vec![3.0, 0.5]);
        assert!(svg.contains(">61<") || svg.contains(">60<"), "{svg}");
        assert!(svg.contains("sk-band"));
    }

    #[test]
    fn no_points_and_one_point_are_drawn() {
        assert!(chart(vec![], vec![]).contains("no data"));
        assert!(render_png(&chart(vec![(1.0, 1.0)], vec![]), 1.0).is_ok());
        assert!(LineChart::default().svg().contains("no data"));
    }
}
