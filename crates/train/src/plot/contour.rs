//! Contour lines of a function on a grid, by marching squares.

use std::collections::BTreeMap;

/// Values at the nodes of a grid, row-major, `columns` nodes per row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid<'a> {
    pub(super) values: &'a [f64],
    pub(super) columns: usize,
}

/// An edge between two neighbouring nodes: the lower node's column and row, and whether it goes up.
type Edge = (usize, usize, bool);

impl Grid<'_> {
    pub(super) fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    pub(super) fn at(&self, column: usize, row: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    /// The lines on which the function, linear along edges, takes `level`, in node units.
    pub(super) fn contours(&self, level: f64) -> Vec<Vec<(f64, f64)>> {
        let mut joined: BTreeMap<Edge, Vec<Edge>> = BTreeMap::new();
        for row in 0..self.rows() - 1 {
            for column in 0..self.columns - 1 {
                for (a, b) in self.segments(column, row, level) {
                    joined.entry(a).or_default().push(b);
                    joined.entry(b).or_default().push(a);
                }
            }
        }
        let mut lines = Vec::new();
        // Open lines first, from an end on the border; what remains are loops.
        for open in [true, false] {
            while let Some((&start, _)) = joined.iter().find(|(_, next)| !open || next.len() == 1) {
                lines.push(walk(start, &mut joined).into_iter().map(|e| self.crossing(e, level)).collect());
            }
        }
        lines
    }

    /// The pieces of the line through one cell, each from edge to edge.
    fn segments(&self, column: usize, row: usize, level: f64) -> Vec<(Edge, Edge)> {
        let above = |c: usize, r: usize| self.at(c, r) > level;
        let corners =
            [above(column, row), above(column + 1, row), above(column + 1, row + 1), above(column, row + 1)];
        let edges: [Edge; 4] =
            [(column, row, false), (column + 1, row, true), (column, row + 1, false), (column, row, true)];
        let crossed: Vec<Edge> =
            (0..4).filter(|&i| corners[i] != corners[(i + 1) % 4]).map(|i| edges[i]).collect();
        match crossed[..] {
            [a, b] => vec![(a, b)],
            [a, b, c, d] => {
                // A saddle: the mean says which pair of corners hangs together.
                let mean = (self.at(column, row)
                    + self.at(column + 1, row)
                    + self.at(column, row + 1)
                    + self.at(column + 1, row + 1))
                    / 4.0;
                if (mean > level) == corners[0] { vec![(a, b), (c, d)] } else { vec![(d, a), (b, c)] }
            }
            _ => vec![],
        }
    }

    /// Where the level is met on an edge.
    fn crossing(&self, (column, row, up): Edge, level: f64) -> (f64, f64) {
        let from = self.at(column, row);
        let to = if up { self.at(column, row + 1) } else { self.at(column + 1, row) };
        let part = (level - from) / (to - from);
        if up { (column as f64, row as f64 + part) } else { (column as f64 + part, row as f64) }
    }
}

/// Follows the pieces from `start` to the end, taking them out of `joined`.
fn walk(start: Edge, joined: &mut BTreeMap<Edge, Vec<Edge>>) -> Vec<Edge> {
    let mut line = vec![start];
    let mut here = start;
    while let Some(next) = joined.get(&here).and_then(|n| n.first().copied()) {
        for (from, to) in [(here, next), (next, here)] {
            if let Some(neighbours) = joined.get_mut(&from) {
                neighbours.retain(|n| *n != to);
                if neighbours.is_empty() {
                    joined.remove(&from);
                }
            }
        }
        line.push(next);
        here = next;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(n: usize, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        (0..n * n).map(|i| f((i % n) as f64, (i / n) as f64)).collect()
    }

    #[test]
    fn a_plane_gives_one_straight_line() {
        let values = sampled(6, |x, y| x + 0.5 * y);
        let lines = Grid { values: &values, columns: 6 }.contours(2.3);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].len() >= 6);
        for (x, y) in &lines[0] {
            assert!((x + 0.5 * y - 2.3).abs() < 1e-12);
        }
    }

    #[test]
    fn a_hill_gives_one_closed_loop() {
        let values = sampled(21, |x, y| -((x - 10.0).powi(2) + (y - 10.0).powi(2)));
        let lines = Grid { values: &values, columns: 21 }.contours(-36.5);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].first(), lines[0].last());
        for (x, y) in &lines[0] {
            assert!(((x - 10.0).hypot(y - 10.0) - 36.5f64.sqrt()).abs() < 0.05);
        }
    }

    #[test]
    fn a_saddle_gives_two_lines_and_a_flat_grid_none() {
        let values = sampled(2, |x, y| if x == y { 1.0 } else { 0.0 });
        assert_eq!(Grid { values: &values, columns: 2 }.contours(0.5).len(), 2);
        assert!(Grid { values: &[1.0; 9], columns: 3 }.contours(0.5).is_empty());
        assert!(Grid { values: &[0.5; 9], columns: 3 }.contours(0.5).is_empty());
    }
}
