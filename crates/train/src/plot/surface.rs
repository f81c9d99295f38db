//! Functions of two variables as colour with contour lines.

use super::axis::{Frame, Ticks};
use super::contour::Grid;
use super::error::PlotError;
use super::png::data_uri;
use super::svg::{Anchor, Area, Svg};
use super::theme::sequential;

/// A function on a grid of nodes that includes the ends of both ranges.
#[derive(Debug, Clone)]
pub struct Surface {
    /// Above the panel.
    pub title: String,
    /// Range of the first variable.
    pub x_range: (f64, f64),
    /// Range of the second variable.
    pub y_range: (f64, f64),
    /// Nodes along the first variable.
    pub columns: usize,
    /// Row-major values, the first row at the lower end of `y_range`.
    pub values: Vec<f64>,
    /// A second function on the same nodes, drawn as dashed lines at the same levels; empty for none.
    pub compared: Vec<f64>,
}

impl Surface {
    /// Takes `function(x, y)` at `nodes` × `nodes` points.
    pub(crate) fn sample<E>(
        title: &str,
        x_range: (f64, f64),
        y_range: (f64, f64),
        nodes: usize,
        mut function: impl FnMut(f64, f64) -> Result<f64, E>,
    ) -> Result<Self, E> {
        let at = |(low, high): (f64, f64), i: usize| low + (high - low) * i as f64 / (nodes - 1) as f64;
        let mut values = Vec::with_capacity(nodes * nodes);
        for row in 0..nodes {
            for column in 0..nodes {
                values.push(function(at(x_range, column), at(y_range, row))?);
            }
        }
        Ok(Self { title: title.into(), x_range, y_range, columns: nodes, values, compared: vec![] })
    }

    fn check(&self) -> Result<(), PlotError> {
        let (found, columns) = (self.values.len(), self.columns);
        let rows = found.checked_div(columns).unwrap_or(0);
        let whole = columns >= 2 && rows >= 2 && rows * columns == found;
        if whole && (self.compared.is_empty() || self.compared.len() == found) {
            return Ok(());
        }
        Err(PlotError::Grid { found: found.max(self.compared.len()), columns, rows })
    }
}

const SIDE: f64 = 176.0;
const CELL: (f64, f64) = (226.0, 246.0);
const LEVELS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Probabilities (0 to 1) over two variables: panels in rows of `per_row`, contour lines at 0.1, ..., 0.9 with
/// 0.5 strong, one colour bar for all. `names`: of the two variables.
pub fn surfaces(
    title: &str,
    names: (&str, &str),
    panels: &[Surface],
    per_row: usize,
) -> Result<String, PlotError> {
    let per_row = per_row.max(1);
    let columns = panels.len().clamp(1, per_row);
    let rows = panels.len().div_ceil(per_row).max(1);
    let width = CELL.0 * columns as f64 + 96.0;
    let mut svg = Svg::new(width, CELL.1 * rows as f64 + 46.0);
    svg.text((20.0, 26.0), Anchor::Start, "sk-title", title);
    for (i, panel) in panels.iter().enumerate() {
        let corner = (CELL.0 * (i % per_row) as f64, CELL.1 * (i / per_row) as f64 + 40.0);
        draw(&mut svg, panel, names, corner)?;
    }
    colour_bar(&mut svg, (width - 66.0, 40.0 + 26.0))?;
    Ok(svg.finish(title))
}

fn draw(svg: &mut Svg, panel: &Surface, names: (&str, &str), corner: (f64, f64)) -> Result<(), PlotError> {
    panel.check()?;
    let area = Area { x: corner.0 + 48.0, y: corner.1 + 26.0, w: SIDE, h: SIDE };
    let grid = Grid { values: &panel.values, columns: panel.columns };
    svg.text((area.x, area.y - 8.0), Anchor::Start, "sk-head", &panel.title);
    svg.image(area, &heat(grid)?, true);
    for level in LEVELS {
        let class = if level == 0.5 { "sk-half" } else { "sk-contour" };
        contour(svg, area, grid, level, class);
    }
    if !panel.compared.is_empty() {
        let other = Grid { values: &panel.compared, ..grid };
        LEVELS.iter().for_each(|&level| contour(svg, area, other, level, "sk-other"));
    }
    let frame = Frame::new(area, panel.x_range, panel.y_range);
    frame.x_ticks(svg, &Ticks::inside(panel.x_range, 4), true);
    let y_ticks = Ticks::inside(panel.y_range, 4);
    for &value in &y_ticks.values {
        let y = frame.y.at(value);
        svg.line((area.x - 4.0, y), (area.x, y), "sk-axis");
        svg.text((area.x - 7.0, y + 3.8), Anchor::End, "sk-muted", &y_ticks.label(value));
    }
    frame.x_name(svg, names.0);
    frame.y_name(svg, names.1, 34.0);
    Ok(())
}

/// A pixel for each cell, coloured by the mean of its corners; the first row of nodes is at the bottom.
fn heat(grid: Grid<'_>) -> Result<String, PlotError> {
    let (columns, rows) = (grid.columns - 1, grid.rows() - 1);
    let mut pixels = Vec::with_capacity(3 * columns * rows);
    for row in (0..rows).rev() {
        for column in 0..columns {
            let sum = grid.at(column, row)
                + grid.at(column + 1, row)
                + grid.at(column, row + 1)
                + grid.at(column + 1, row + 1);
            pixels.extend(sequential(sum / 4.0));
        }
    }
    data_uri(columns as u32, rows as u32, &pixels)
}

fn contour(svg: &mut Svg, area: Area, grid: Grid<'_>, level: f64, class: &str) {
    let (dx, dy) = (area.w / (grid.columns - 1) as f64, area.h / (grid.rows() - 1) as f64);
    for line in grid.contours(level) {
        let points: Vec<_> =
            line.into_iter().map(|(x, y)| (area.x + x * dx, area.bottom() - y * dy)).collect();
        svg.polyline(&points, class);
    }
}

fn colour_bar(svg: &mut Svg, (x, y): (f64, f64)) -> Result<(), PlotError> {
    let steps = 64u32;
    let pixels: Vec<u8> =
        (0..steps).rev().flat_map(|i| sequential(f64::from(i) / f64::from(steps - 1))).collect();
    let area = Area { x, y, w: 14.0, h: SIDE };
    svg.image(area, &data_uri(1, steps, &pixels)?, true);
    for (i, label) in ["0", "0.5", "1"].into_iter().enumerate() {
        let at = area.bottom() - SIDE * i as f64 / 2.0;
        svg.line((area.right(), at), (area.right() + 4.0, at), "sk-axis");
        svg.text((area.right() + 8.0, at + 3.8), Anchor::Start, "sk-muted", label);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn plane() -> Surface {
        let value = |x: f64, y: f64| Ok::<_, Infallible>(0.5 + 0.25 * (x - y));
        Surface::sample("plane", (-1.0, 1.0), (0.0, 2.0), 9, value).unwrap()
    }

    #[test]
    fn samples_lie_on_the_nodes() {
        let s = plane();
        assert_eq!(s.values.len(), 81);
        assert_eq!((s.values[0], s.values[8], s.values[80]), (0.25, 0.75, 0.25));
    }

    #[test]
    fn every_level_is_drawn_and_half_is_strong() {
        let svg = surfaces("t", ("x", "y"), &[plane()], 2).unwrap();
        assert_eq!(svg.matches("class=\"sk-half\"").count(), 1);
        // The plane runs from -0.25 to 0.75 on these ranges.
        assert_eq!(svg.matches("class=\"sk-contour\"").count(), 6);
        assert!(crate::plot::render_png(&svg, 1.0).is_ok());
    }

    #[test]
    fn a_grid_that_does_not_fit_is_refused() {
        for (columns, len) in [(0, 4), (1, 4), (4, 4), (3, 10)] {
            let bad = Surface { columns, values: vec![0.5; len], ..plane() };
            assert!(matches!(surfaces("t", ("x", "y"), &[bad], 2), Err(PlotError::Grid { .. })));
        }
        let bad = Surface { compared: vec![0.5; 3], ..plane() };
        assert!(matches!(surfaces("t", ("x", "y"), &[bad], 2), Err(PlotError::Grid { .. })));
    }
}
