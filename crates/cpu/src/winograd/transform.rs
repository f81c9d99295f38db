//! The transforms of F(4, 3): 6 inputs, 4 outputs, points 0, ±A, ±B and infinity; and of F(3, 3), F(2, 3) and F(1, 3) at
//! some of these points, for the tiles at the edges.
//!
//! One dimension: y = Aᵀ[(G g) ⊙ (Bᵀ d)] gives 4 outputs of a 3-tap filter with 6 multiplications instead of 12; in
//! two dimensions 36 instead of 144. The backward pass is the exact adjoint, so it needs A and B transposed and no more.
//! G is the same for every size: what a left-out point b would have done to its scale, a factor a − b at point a, is in Bᵀ.
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

/// The points of a tile with so many outputs: two more than it has outputs.
pub(super) const POINTS_OF: [&[usize]; 5] =
    [&[], &[1, 2, 5], &[0, 1, 2, 5], &[1, 2, 3, 4, 5], &[0, 1, 2, 3, 4, 5]];

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
fn input4<V: Vector>(d: [V; 6]) -> [V; 6] {
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

#[inline(always)]
fn input3<V: Vector>(d: [V; 5]) -> [V; 5] {
    let (even_a, odd_a) = (times(d[2], P).sub(d[0]), times(plus(d[3], d[1], -Q), A));
    let (even_b, odd_b) = (times(d[2], Q).sub(d[0]), times(plus(d[3], d[1], -P), B));
    [
        even_a.add(odd_a),
        even_a.sub(odd_a),
        even_b.add(odd_b),
        even_b.sub(odd_b),
        plus(d[0].add(d[4]), d[2], -(P + Q)),
    ]
}

#[inline(always)]
fn input2<V: Vector>(d: [V; 4]) -> [V; 4] {
    let (even, odd) = (times(d[2], P - Q), times(d[1], (P - Q) * A));
    [plus(d[0], d[2], -Q), even.add(odd), even.sub(odd), plus(d[3], d[1], -P)]
}

#[inline(always)]
fn input1<V: Vector>(d: [V; 3]) -> [V; 3] {
    let (even, odd) = (times(d[0], (P - Q) * P), times(d[1], (P - Q) * A));
    [even.add(odd), even.sub(odd), plus(d[2], d[0], -P)]
}

/// B v: the adjoint of the input transform.
#[inline(always)]
fn input4_adjoint<V: Vector>(v: [V; 6]) -> [V; 6] {
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

#[inline(always)]
fn input3_adjoint<V: Vector>(v: [V; 5]) -> [V; 5] {
    let (sum_a, odd_a) = (v[0].add(v[1]), times(v[0].sub(v[1]), A));
    let (sum_b, odd_b) = (v[2].add(v[3]), times(v[2].sub(v[3]), B));
    [
        v[4].sub(sum_a).sub(sum_b),
        plus(times(odd_a, -Q), odd_b, -P),
        plus(plus(times(v[4], -(P + Q)), sum_a, P), sum_b, Q),
        odd_a.add(odd_b),
        v[4],
    ]
}

#[inline(always)]
fn input2_adjoint<V: Vector>(v: [V; 4]) -> [V; 4] {
    let (sum, odd) = (v[1].add(v[2]), v[1].sub(v[2]));
    [v[0], plus(times(odd, (P - Q) * A), v[3], -P), plus(times(v[0], -Q), sum, P - Q), v[3]]
}

#[inline(always)]
fn input1_adjoint<V: Vector>(v: [V; 3]) -> [V; 3] {
    let (sum, odd) = (v[0].add(v[1]), v[0].sub(v[1]));
    [plus(times(sum, (P - Q) * P), v[2], -P), times(odd, (P - Q) * A), v[2]]
}

/// Aᵀ m: the output transform.
#[inline(always)]
fn output4<V: Vector>(m: [V; 6]) -> [V; 4] {
    let (sum_a, odd_a) = (m[1].add(m[2]), times(m[1].sub(m[2]), A));
    let (sum_b, odd_b) = (m[3].add(m[4]), times(m[3].sub(m[4]), B));
    [
        m[0].add(sum_a).add(sum_b),
        odd_a.add(odd_b),
        plus(times(sum_b, Q), sum_a, P),
        plus(plus(m[5], odd_a, P), odd_b, Q),
    ]
}

#[inline(always)]
fn output3<V: Vector>(m: [V; 5]) -> [V; 3] {
    let (sum_a, odd_a) = (m[0].add(m[1]), times(m[0].sub(m[1]), A));
    let (sum_b, odd_b) = (m[2].add(m[3]), times(m[2].sub(m[3]), B));
    [sum_a.add(sum_b), odd_a.add(odd_b), plus(plus(m[4], sum_a, P), sum_b, Q)]
}

#[inline(always)]
fn output2<V: Vector>(m: [V; 4]) -> [V; 2] {
    [m[0].add(m[1]).add(m[2]), plus(m[3], m[1].sub(m[2]), A)]
}

#[inline(always)]
fn output1<V: Vector>(m: [V; 3]) -> [V; 1] {
    [m[0].add(m[1]).add(m[2])]
}

/// A y: the adjoint of the output transform.
#[inline(always)]
fn output4_adjoint<V: Vector>(y: [V; 4]) -> [V; 6] {
    let even_a = plus(y[0], y[2], P);
    let odd_a = times(plus(y[1], y[3], P), A);
    let even_b = plus(y[0], y[2], Q);
    let odd_b = times(plus(y[1], y[3], Q), B);
    [y[0], even_a.add(odd_a), even_a.sub(odd_a), even_b.add(odd_b), even_b.sub(odd_b), y[3]]
}

#[inline(always)]
fn output3_adjoint<V: Vector>(y: [V; 3]) -> [V; 5] {
    let (even_a, odd_a) = (plus(y[0], y[2], P), times(y[1], A));
    let (even_b, odd_b) = (plus(y[0], y[2], Q), times(y[1], B));
    [even_a.add(odd_a), even_a.sub(odd_a), even_b.add(odd_b), even_b.sub(odd_b), y[2]]
}

#[inline(always)]
fn output2_adjoint<V: Vector>(y: [V; 2]) -> [V; 4] {
    [y[0], plus(y[0], y[1], A), plus(y[0], y[1], -A), y[1]]
}

#[inline(always)]
fn output1_adjoint<V: Vector>(y: [V; 1]) -> [V; 3] {
    [y[0]; 3]
}

/// The factors of G at the points ±A and ±B.
const AT_A: f32 = 1.0 / (2.0 * P * (P - Q));
const AT_B: f32 = 1.0 / (2.0 * Q * (Q - P));

/// G g: the filter transform.
#[inline(always)]
pub(super) fn filter<V: Vector>(g: [V; 3]) -> [V; 6] {
    let (even_a, odd_a) = (times(plus(g[0], g[2], P), AT_A), times(g[1], A * AT_A));
    let (even_b, odd_b) = (times(plus(g[0], g[2], Q), AT_B), times(g[1], B * AT_B));
    [g[0], even_a.add(odd_a), even_a.sub(odd_a), even_b.add(odd_b), even_b.sub(odd_b), g[2]]
}

/// Gᵀ u: the adjoint of [`filter`].
#[inline(always)]
pub(super) fn filter_adjoint<V: Vector>(u: [V; 6]) -> [V; 3] {
    let (sum_a, odd_a) = (times(u[1].add(u[2]), AT_A), u[1].sub(u[2]));
    let (sum_b, odd_b) = (times(u[3].add(u[4]), AT_B), u[3].sub(u[4]));
    [
        u[0].add(sum_a).add(sum_b),
        plus(times(odd_a, A * AT_A), odd_b, B * AT_B),
        plus(plus(u[5], sum_a, P), sum_b, Q),
    ]
}

/// G: row i is what the filter's three taps become at point i.
pub(super) fn filter_matrix() -> [[f32; 3]; 6] {
    [
        [1.0, 0.0, 0.0],
        [AT_A, A * AT_A, P * AT_A],
        [AT_A, -A * AT_A, P * AT_A],
        [AT_B, B * AT_B, Q * AT_B],
        [AT_B, -B * AT_B, Q * AT_B],
        [0.0, 0.0, 1.0],
    ]
}

/// Where row i, column j of a small grid of vectors lies: rows[i] + cols[j] floats on.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub rows: [usize; 6],
    pub cols: [usize; 6],
}

/// A grid of vectors between the two halves of a sandwich.
pub(super) type Half<V> = [[V; 6]; 6];

/// A linear map from I vectors to O. A trait and not a closure: the call must be inlined into code compiled for the wider
/// instructions, and only `#[inline(always)]` promises that.
trait Map<const I: usize, const O: usize> {
    fn apply<V: Vector>(from: [V; I]) -> [V; O];
}

/// A transform T for tiles of every size.
pub(super) trait Transform {
    /// T X Tᵀ for a grid X of vectors, both T those for so many outputs; with `ADD` the result is added to `to`.
    ///
    /// # Safety
    /// Vectors at all places of `from` that T takes must be readable, at all places of `to` that it gives readable and
    /// writable.
    unsafe fn sandwich<V: Vector, const ADD: bool>(
        outputs: [usize; 2],
        from: *const f32,
        from_grid: &Grid,
        half: &mut Half<V>,
        to: *mut f32,
        to_grid: &Grid,
    );
}

macro_rules! transforms {
    ($($name:ident: $($size:literal: $from:literal -> $to:literal = $function:ident),*;)*) => {
        $(
            pub(super) struct $name;
            $(
                impl Map<$from, $to> for $name {
                    #[inline(always)]
                    fn apply<V: Vector>(from: [V; $from]) -> [V; $to] {
                        $function(from)
                    }
                }
            )*
            impl Transform for $name {
                #[inline(always)]
                unsafe fn sandwich<V: Vector, const ADD: bool>(
                    [down, across]: [usize; 2],
                    from: *const f32,
                    from_grid: &Grid,
                    half: &mut Half<V>,
                    to: *mut f32,
                    to_grid: &Grid,
                ) {
                    let (mut width, mut height) = (0, 0);
                    $(if across == $size { width = $from; })*
                    // SAFETY: the caller's promise is passed on.
                    unsafe {
                        match down {
                            $($size => {
                                columns::<V, Self, $from, $to>(from, from_grid, width, half);
                                height = $to;
                            })*
                            _ => {}
                        }
                        match across {
                            $($size => rows::<V, Self, $from, $to, ADD>(half, height, to, to_grid),)*
                            _ => {}
                        }
                    }
                }
            }
        )*
    };
}

transforms! {
    Input: 4: 6 -> 6 = input4, 3: 5 -> 5 = input3, 2: 4 -> 4 = input2, 1: 3 -> 3 = input1;
    InputAdjoint: 4: 6 -> 6 = input4_adjoint, 3: 5 -> 5 = input3_adjoint, 2: 4 -> 4 = input2_adjoint,
        1: 3 -> 3 = input1_adjoint;
    Output: 4: 6 -> 4 = output4, 3: 5 -> 3 = output3, 2: 4 -> 2 = output2, 1: 3 -> 1 = output1;
    OutputAdjoint: 4: 4 -> 6 = output4_adjoint, 3: 3 -> 5 = output3_adjoint, 2: 2 -> 4 = output2_adjoint,
        1: 1 -> 3 = output1_adjoint;
}

/// The first half, T X: `width` columns of I vectors become columns of O.
///
/// # Safety
/// Vectors at these places of `from` must be readable.
#[inline(always)]
unsafe fn columns<V: Vector, T: Map<I, O>, const I: usize, const O: usize>(
    from: *const f32,
    grid: &Grid,
    width: usize,
    half: &mut Half<V>,
) {
    for j in 0..width {
        let mut column = [V::splat(0.0); I];
        for i in 0..I {
            // SAFETY: the caller vouches for these places.
            column[i] = unsafe { V::load(from.add(grid.rows[i] + grid.cols[j])) };
        }
        let column = T::apply(column);
        for o in 0..O {
            half[o][j] = column[o];
        }
    }
}

/// The second half, (T X) Tᵀ: `height` rows of I vectors become rows of O.
///
/// # Safety
/// Vectors at these places of `to` must be readable and writable.
#[inline(always)]
unsafe fn rows<V: Vector, T: Map<I, O>, const I: usize, const O: usize, const ADD: bool>(
    half: &Half<V>,
    height: usize,
    to: *mut f32,
    grid: &Grid,
) {
    for i in 0..height {
        let mut row = [V::splat(0.0); I];
        row.copy_from_slice(&half[i][..I]);
        let row = T::apply(row);
        for j in 0..O {
            // SAFETY: the caller vouches for these places.
            unsafe {
                let p = to.add(grid.rows[i] + grid.cols[j]);
                if ADD { V::load(p).add(row[j]).store(p) } else { row[j].store(p) }
            }
        }
    }
}
