//! How is a program performed? A hand carries it out a little differently each time.
//!
//! Only `+ - * /` and square roots are used, which IEEE 754 rounds alike everywhere, so a glyph has the same bytes
//! on every machine.

use super::program::{Arc, Program, Stroke};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A point or a direction; `y` points down.
pub(super) type Point = [f64; 2];

/// The longest turn of one line segment of an arc, in radians.
const STEP: f64 = 0.3;

/// The spread (standard deviation) of each thing a hand does inexactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jitter {
    /// Headings, corners and turns, in radians; turns by this part of themselves as well.
    pub angle: f64,
    /// Lengths, as a part of themselves.
    pub length: f64,
    /// Where strokes touch, in glyph heights.
    pub place: f64,
    /// Control points (the ends of arcs), in glyph heights.
    pub control: f64,
    /// Rotation of the whole, in radians.
    pub rotation: f64,
    /// Slant: shift to the side for each unit of height.
    pub shear: f64,
    /// Width and height, as a part of themselves.
    pub scale: f64,
    /// Position of the whole, in glyph heights.
    pub shift: f64,
}

impl Jitter {
    /// The exact performance.
    pub(super) const NONE: Self = Self {
        angle: 0.0,
        length: 0.0,
        place: 0.0,
        control: 0.0,
        rotation: 0.0,
        shear: 0.0,
        scale: 0.0,
        shift: 0.0,
    };
}

/// Performs `program`: one polyline a stroke, the whole centred at the origin with the larger side about 1.
pub(super) fn perform(program: &Program, jitter: &Jitter, rng: &mut ChaCha8Rng) -> Vec<Vec<Point>> {
    let mut lines: Vec<Vec<Point>> = Vec::with_capacity(program.strokes.len());
    for stroke in &program.strokes {
        let mut line = draw(stroke, jitter, rng);
        let place = stroke.place;
        let along = place.along + jitter.place * deviate(rng);
        let slip = [jitter.place * deviate(rng), jitter.place * deviate(rng)];
        if let Some(earlier) = lines.get(place.on) {
            let target = point_along(earlier, along);
            let own = point_along(&line, place.own);
            for p in &mut line {
                for d in 0..2 {
                    p[d] += target[d] - own[d] + place.offset[d] + slip[d];
                }
            }
        }
        lines.push(line);
    }
    fit(&mut lines);
    transform(&mut lines, jitter, rng);
    lines
}

/// One stroke from the origin. Control points are the ends of arcs; a shifted end carries its arc along.
fn draw(stroke: &Stroke, jitter: &Jitter, rng: &mut ChaCha8Rng) -> Vec<Point> {
    let mut direction = rotate(compass(stroke.heading), jitter.angle * deviate(rng));
    let mut pen = [jitter.control * deviate(rng), jitter.control * deviate(rng)];
    let mut line = vec![pen];
    for &Arc { corner, length, turn } in &stroke.arcs {
        let corner = if corner == 0.0 { 0.0 } else { corner + jitter.angle * deviate(rng) };
        direction = rotate(direction, corner);
        let turn = turn * (1.0 + jitter.angle * deviate(rng)) + jitter.angle * deviate(rng);
        let length = length * (1.0 + jitter.length * deviate(rng)).max(0.2);
        let drift = [jitter.control * deviate(rng), jitter.control * deviate(rng)];
        let steps = (turn.abs() / STEP).ceil().max(4.0);
        for _ in 0..steps as usize {
            direction = rotate(direction, 0.5 * turn / steps);
            for d in 0..2 {
                pen[d] += (direction[d] * length + drift[d]) / steps;
            }
            direction = rotate(direction, 0.5 * turn / steps);
            line.push(pen);
        }
    }
    line
}

/// Moves and scales so that the box around all lines is centred and its larger side is 1.
fn fit(lines: &mut [Vec<Point>]) {
    let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for p in lines.iter().flatten() {
        for d in 0..2 {
            low[d] = low[d].min(p[d]);
            high[d] = high[d].max(p[d]);
        }
    }
    let side = (high[0] - low[0]).max(high[1] - low[1]).max(1e-6);
    for p in lines.iter_mut().flatten() {
        for d in 0..2 {
            p[d] = (p[d] - 0.5 * (low[d] + high[d])) / side;
        }
    }
}

/// Affine jitter of the whole: scale, slant, rotation, shift.
fn transform(lines: &mut [Vec<Point>], jitter: &Jitter, rng: &mut ChaCha8Rng) {
    let scale = [1.0 + jitter.scale * deviate(rng), 1.0 + jitter.scale * deviate(rng)];
    let shear = jitter.shear * deviate(rng);
    let rotation = jitter.rotation * deviate(rng);
    let shift = [jitter.shift * deviate(rng), jitter.shift * deviate(rng)];
    for p in lines.iter_mut().flatten() {
        let scaled = [p[0] * scale[0], p[1] * scale[1]];
        let [x, y] = rotate([scaled[0] - shear * scaled[1], scaled[1]], rotation);
        *p = [x + shift[0], y + shift[1]];
    }
}

/// The point at `part` of the way along a polyline; parts outside 0..1 give the ends.
fn point_along(line: &[Point], part: f64) -> Point {
    let whole: f64 = line.windows(2).map(|s| distance(s[0], s[1])).sum();
    let mut left = part.max(0.0) * whole;
    for s in line.windows(2) {
        let step = distance(s[0], s[1]);
        if left < step {
            let t = left / step;
            return [s[0][0] + t * (s[1][0] - s[0][0]), s[0][1] + t * (s[1][1] - s[0][1])];
        }
        left -= step;
    }
    line[line.len() - 1]
}

fn distance(a: Point, b: Point) -> f64 {
    ((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1])).sqrt()
}

/// The unit vector of one of sixteen directions: 0 to the right, 4 down.
fn compass(sixteenth: u8) -> Point {
    let mut direction = [1.0, 0.0];
    for _ in 0..sixteenth {
        direction = rotate(direction, std::f64::consts::PI / 8.0);
    }
    direction
}

/// Turns `v` by `angle`, in steps of at most half a radian, where three terms of the series of tan are exact to 4e-6.
fn rotate(v: Point, angle: f64) -> Point {
    let steps = (angle.abs() / 0.5).ceil().max(1.0);
    let half = 0.5 * angle / steps;
    let square = half * half;
    let t = half * (1.0 + square * (1.0 / 3.0 + square * 2.0 / 15.0));
    let (cos, sin) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
    let mut v = v;
    for _ in 0..steps as usize {
        v = [cos * v[0] - sin * v[1], sin * v[0] + cos * v[1]];
    }
    v
}

/// A bell-shaped number of mean 0 and variance 1, at most sqrt(12) in size: the sum of four uniform ones.
fn deviate(rng: &mut ChaCha8Rng) -> f64 {
    let sum: f64 = (0..4).map(|_| rng.random_range(-1.0..1.0)).sum();
    sum * 0.75f64.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::glyphs::program::Place;
    use siskin_random::stream;

    #[test]
    fn rotation_is_that_of_sine_and_cosine() {
        for k in -20..=20 {
            let angle = 0.31 * f64::from(k);
            let [x, y] = rotate([1.0, 0.0], angle);
            assert!((x - angle.cos()).abs() < 1e-4 && (y - angle.sin()).abs() < 1e-4, "{angle}: {x} {y}");
            assert!((x * x + y * y - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn deviates_have_mean_zero_and_variance_one() {
        let mut rng = stream(3, "test", 0);
        let draws: Vec<f64> = (0..40_000).map(|_| deviate(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn an_exact_performance_repeats_itself_and_fits_the_unit_box() {
        for candidate in 0..200 {
            let program = Program::invent(&mut stream(5, "test", candidate));
            let lines = perform(&program, &Jitter::NONE, &mut stream(5, "hand", candidate));
            assert_eq!(lines, perform(&program, &Jitter::NONE, &mut stream(6, "hand", candidate)));
            let side = |d: usize| {
                let values = || lines.iter().flatten().map(|p| p[d]);
                values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min)
            };
            assert!((side(0).max(side(1)) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn strokes_that_touch_share_a_point() {
        let line =
            |place| Stroke { heading: 0, arcs: vec![Arc { corner: 0.0, length: 1.0, turn: 0.0 }], place };
        let place = Place { on: 0, along: 0.5, own: 0.0, offset: [0.0; 2] };
        let mut down = line(place);
        down.heading = 4;
        let program = Program { strokes: vec![line(Place { along: 0.0, ..place }), down] };
        let lines = perform(&program, &Jitter::NONE, &mut stream(0, "hand", 0));
        // A "T": the bar from (-.5, -.5) to (.5, -.5), the stem from its middle down.
        let near = |p: Point, q: Point| distance(p, q) < 1e-3;
        assert!(near(lines[0][0], [-0.5, -0.5]) && near(lines[1][0], [0.0, -0.5]));
        assert!(near(lines[1][lines[1].len() - 1], [0.0, 0.5]), "{:?}", lines[1]);
    }
}
