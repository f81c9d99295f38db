//! What is a glyph? A program for the pen: strokes made of arcs, each stroke placed against an earlier one.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A piece of a stroke with constant curvature. Lengths are in glyph heights, angles in radians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arc {
    /// Sharp turn of the pen before the arc begins.
    pub corner: f64,
    /// Way the pen goes.
    pub length: f64,
    /// Turn spread over that way; positive is clockwise on the page.
    pub turn: f64,
}

/// One stroke: the pen goes down, draws the arcs and is lifted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stroke {
    /// First heading, in sixteenths of a circle: 0 to the right, 4 down.
    pub heading: u8,
    /// At least one arc.
    pub arcs: Vec<Arc>,
    /// Where the stroke lies.
    pub place: Place,
}

/// How a stroke is placed: its own point at `own` (0 = first, 1 = last) is put on a point of an earlier stroke.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Number of the earlier stroke; the first stroke of a program names itself and is placed at the origin.
    pub on: usize,
    /// Where on the earlier stroke, as a part of its way.
    pub along: f64,
    /// Which own point, as a part of the way.
    pub own: f64,
    /// Distance between the two points: zero where the strokes touch.
    pub offset: [f64; 2],
}

/// A character: all examples of one class are performances of the same program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    /// One to four strokes.
    pub strokes: Vec<Stroke>,
}

impl Program {
    /// A new character. Most have two or three strokes; a single stroke gets more arcs.
    pub(super) fn invent(rng: &mut ChaCha8Rng) -> Self {
        let count = pick(rng, &[(1, 0.2), (2, 0.4), (3, 0.28), (4, 0.12)]);
        let strokes = (0..count).map(|i| stroke(rng, i, count)).collect();
        Self { strokes }
    }
}

fn stroke(rng: &mut ChaCha8Rng, index: usize, count: usize) -> Stroke {
    // Hands draw down and to the right more often than up and to the left.
    let heading = pick(
        rng,
        &[
            (0, 0.22),
            (2, 0.12),
            (3, 0.06),
            (4, 0.28),
            (5, 0.06),
            (6, 0.14),
            (8, 0.06),
            (13, 0.03),
            (14, 0.03),
        ],
    );
    let arcs = match count {
        1 => pick(rng, &[(2, 0.25), (3, 0.5), (4, 0.25)]),
        2 => pick(rng, &[(1, 0.3), (2, 0.45), (3, 0.25)]),
        _ => pick(rng, &[(1, 0.6), (2, 0.4)]),
    };
    let arcs = (0..arcs).map(|i| arc(rng, i == 0)).collect();
    Stroke { heading, arcs, place: place(rng, index) }
}

fn arc(rng: &mut ChaCha8Rng, first: bool) -> Arc {
    let side = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
    let corner = match () {
        () if first => 0.0,
        () if rng.random_bool(0.4) => 0.0,
        () => side * rng.random_range(1.0..2.6),
    };
    let bend = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
    let (length, turn) = match pick(rng, &[(0, 0.42), (1, 0.2), (2, 0.26), (3, 0.12)]) {
        0 => (rng.random_range(0.35..1.0), 0.0),
        1 => (rng.random_range(0.5..1.0), bend * rng.random_range(0.6..1.5)),
        2 => (rng.random_range(0.5..1.1), bend * rng.random_range(2.4..3.6)),
        _ => (rng.random_range(0.9..1.5), bend * rng.random_range(4.4..6.2)),
    };
    Arc { corner, length, turn }
}

fn place(rng: &mut ChaCha8Rng, index: usize) -> Place {
    if index == 0 {
        return Place { on: 0, along: 0.0, own: 0.0, offset: [0.0; 2] };
    }
    let on = rng.random_range(0..index);
    let along = pick(rng, &[(0.0, 0.25), (0.25, 0.1), (0.5, 0.25), (0.75, 0.15), (1.0, 0.25)]);
    let own = pick(rng, &[(0.0, 0.55), (0.5, 0.35), (1.0, 0.1)]);
    let apart = rng.random_bool(0.3);
    let offset = if apart {
        // Far enough to be seen as a gap.
        let side = |rng: &mut ChaCha8Rng| {
            let sign = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
            sign * rng.random_range(0.12..0.5)
        };
        [side(rng), side(rng)]
    } else {
        [0.0; 2]
    };
    Place { on, along, own, offset }
}

/// One of the values, with its weight (the weights add up to one).
fn pick<T: Copy>(rng: &mut ChaCha8Rng, choices: &[(T, f64)]) -> T {
    let mut u: f64 = rng.random();
    for &(value, weight) in choices {
        u -= weight;
        if u < 0.0 {
            return value;
        }
    }
    choices[choices.len() - 1].0
}
