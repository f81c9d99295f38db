//! The transforms of F(4x4, 3x3): 6x6 input tiles, 4x4 output tiles, points 0, ±A, ±B and infinity.
//!
//! One dimension: y = Aᵀ[(G g) ⊙ (Bᵀ d)] gives 4 outputs of a 3-tap filter with 6 multiplications instead of 12; in
//! two dimensions 36 instead of 144. The backward pass is the exact adjoint, so it needs A and B transposed and no more.
#![allow(unsafe_code)]

use crate::simd::Vector;

/// The inner points ±A. With A·B = 1 the rounding error is least: see `docs/performance.md`.
pub(super) const A: f32 = std::f32::consts::FRAC_1_SQRT_2;
/// The outer points ±B.
pub(super) const B: f32 = std::f32::consts::SQRT_2;
/// A².
pub(super) const P: f32 = 0.5;
/// B².
pub(super) const Q: f32 = 2.0;

/// x · c
#[inline(always)]
fn times<V: Vector>(x: V, c: f32) -> V {
    x.mul(V::splat(c))
}

/// x · c + y
#[inline(always)]
fn plus<V: Vector>(y: V, x: V, c: f32) -> V {
    x.fma(V::splat(c), y)
}

/// Bᵀ d: the input transform (P·Q = 1).
#[inline(always)]
fn input<V: Vector>(d: [V; 6]) -> [V; 6] {
    let even_a = plus(d[4], d[2], -Q);
    let odd_a = times(plus(d[3], d[1], -Q), A);
    let even_b = plus(d[4], d[2], -P);
    let odd_b = times(plus(d[3], d[1], -P), B);
    [
        plus(d[0].add(d[4]), d[2], -(P + Q)),
        even_a.add(odd_a),
        even_a.sub(odd_a),
        even_b.add(odd_b),
        even_b.sub(odd_b),
        plus(d[1].add(d[5]), d[3], -(P + Q)),
    ]
}

/// B v: the adjoint of [`input`].
#[inline(always)]
fn input_adjoint<V: Vector>(v: [V; 6]) -> [V; 6] {
    let (sum_a, odd_a) = (v[1].add(v[2]), times(v[1].sub(v[2]), A));
    let (sum_b, odd_b) = (v[3].add(v[4]), times(v[3].sub(v[4]), B));
    [
        v[0],
        plus(plus(v[5], odd_a, -Q), odd_b, -P),
        plus(plus(times(v[0], -(P + Q)), sum_a, -Q), sum_b, -P),
        plus(odd_a.add(odd_b), v[5], -(P + Q)),
        v[0].add(sum_a).add(sum_b),
        v[5],
    ]
}

/// Aᵀ m: the output transform.
#[inline(always)]
fn output<V: Vector>(m: [V; 6]) -> [V; 4] {
    let (sum_a, odd_a) = (m[1].add(m[2]), times(m[1].sub(m[2]), A));
    let (sum_b, odd_b) = (m[3].add(m[4]), times(m[3].sub(m[4]), B));
    [
        m[0].add(sum_a).add(sum_b),
        odd_a.add(odd_b),
        plus(times(sum_b, Q), sum_a, P),
        plus(plus(m[5], odd_a, P), odd_b, Q),
    ]
}

/// A y: the adjoint of [`output`].
#[inline(always)]
fn output_adjoint<V: Vector>(y: [V; 4]) -> [V; 6] {
    let even_a = plus(y[0], y[2], P);
    let odd_a = times(plus(y[1], y[3], P), A);
    let even_b = plus(y[0], y[2], Q);
    let odd_b = times(plus(y[1], y[3], Q), B);
    [y[0], even_a.add(odd_a), even_a.sub(odd_a), even_b.add(odd_b), even_b.sub(odd_b), y[3]]
}

/// G: row i is what the filter's three taps become at point i.
pub(super) fn filter_matrix() -> [[f32; 3]; 6] {
    let (a, b, p, q) = (f64::from(A), f64::from(B), f64::from(P), f64::from(Q));
    let (at_a, at_b) = (1.0 / (2.0 * p * (p - q)), 1.0 / (2.0 * q * (q - p)));
    [
        [1.0 / (p * q), 0.0, 0.0],
        [at_a, a * at_a, p * at_a],
        [at_a, -a * at_a, p * at_a],
        [at_b, b * at_b, q * at_b],
        [at_b, -b * at_b, q * at_b],
        [0.0, 0.0, 1.0],
    ]
    .map(|row| row.map(|x| x as f32))
}

/// Steps, in floats, from one row and one column of a small grid of vectors to the next.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub row: usize,
    pub col: usize,
}

/// A linear map T from I vectors to O. A trait and not a closure: the call must be inlined into code compiled for the
/// wider instructions, and only `#[inline(always)]` promises that.
pub(super) trait Transform<const I: usize, const O: usize> {
    fn apply<V: Vector>(from: [V; I]) -> [V; O];
}

macro_rules! transforms {
    ($($name:ident: $from:literal -> $to:literal = $function:ident;)*) => {
        $(
            #[doc = concat!("The map of [`", stringify!($function), "`].")]
            pub(super) struct $name;
            impl Transform<$from, $to> for $name {
                #[inline(always)]
                fn apply<V: Vector>(from: [V; $from]) -> [V; $to] {
                    $function(from)
                }
            }
        )*
    };
}

transforms! {
    Input: 6 -> 6 = input;
    InputAdjoint: 6 -> 6 = input_adjoint;
    Output: 6 -> 4 = output;
    OutputAdjoint: 4 -> 6 = output_adjoint;
}

/// T X Tᵀ for a grid X of I x I vectors. With `ADD` the result is added to `to`.
///
/// # Safety
/// Vectors at all I x I places of `from` must be readable, at all O x O places of `to` readable and writable.
#[inline(always)]
pub(super) unsafe fn sandwich<
    V: Vector,
    T: Transform<I, O>,
    const I: usize,
    const O: usize,
    const ADD: bool,
>(
    from: *const f32,
    from_grid: Grid,
    to: *mut f32,
    to_grid: Grid,
) {
    let mut half = [[V::splat(0.0); I]; O];
    for j in 0..I {
        let mut column = [V::splat(0.0); I];
        for i in 0..I {
            // SAFETY: the caller vouches for these places.
            column[i] = unsafe { V::load(from.add(i * from_grid.row + j * from_grid.col)) };
        }
        let column = T::apply(column);
        for o in 0..O {
            half[o][j] = column[o];
        }
    }
    for o in 0..O {
        let row = T::apply(half[o]);
        for j in 0..O {
            // SAFETY: the caller vouches for these places.
            unsafe {
                let p = to.add(o * to_grid.row + j * to_grid.col);
                if ADD { V::load(p).add(row[j]).store(p) } else { row[j].store(p) }
            }
        }
    }
}
