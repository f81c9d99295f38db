//! The two matrix products all convolutions are made of, with register tiles of 6 rows x 2 vectors.
#![allow(unsafe_code)]

use crate::simd::{Isa, Vector};

/// Rows of a register tile: 6 x 2 accumulators leave 4 of AVX2's 16 registers for operands.
const ROWS: usize = 6;

/// Vectors side by side in a register tile.
const WIDE: usize = 2;

/// Where the row of a left operand lies: `count` stretches of `len` floats, `step` apart.
/// A matrix row is one stretch; the 3x3 patch under a filter in a channels-last image is three.
#[derive(Clone, Copy)]
pub(crate) struct Stretches {
    pub count: usize,
    pub step: usize,
    pub len: usize,
}

impl Stretches {
    /// A plain row.
    pub(crate) fn row(len: usize) -> Self {
        Self { count: 1, step: 0, len }
    }

    /// Products in a sum.
    pub(crate) fn total(&self) -> usize {
        self.count * self.len
    }

    /// Where the k-th float of a row lies.
    #[inline(always)]
    fn place(&self, k: usize) -> usize {
        if self.count == 1 { k } else { k / self.len * self.step + k % self.len }
    }

    /// Floats from the first of a row to one past its last.
    fn reach(&self) -> usize {
        (self.count - 1) * self.step + self.len
    }
}

/// Where element (k, j) of a right operand `[depth, width]` lies when packed for [`product`]: panels of two vectors
/// (the last may be one), each panel row by row.
pub(crate) fn packed_at(isa: Isa, depth: usize, width: usize, k: usize, j: usize) -> usize {
    let panel = WIDE * isa.lanes();
    let start = j & !(panel - 1); // lanes are a power of two
    start * depth + k * panel.min(width - start) + (j - start)
}

/// out[r, j] = Σ_k a[r, k] · b[k, j] for `rows` rows `a_step` apart; `b` is packed, `width` is whole vectors.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
pub(crate) fn product<V: Vector>(
    a: &[f32],
    a_step: usize,
    stretches: Stretches,
    rows: usize,
    b: &[f32],
    width: usize,
    out: &mut [f32],
    out_step: usize,
) {
    if rows == 0 {
        return;
    }
    let depth = stretches.total();
    assert!(a.len() >= (rows - 1) * a_step + stretches.reach(), "left operand");
    assert!(b.len() >= depth * width && width.is_multiple_of(V::LANES), "right operand");
    assert!(out.len() >= (rows - 1) * out_step + width, "result");
    // The shortest loops, of one channel, with lengths the compiler knows.
    if (stretches.count, stretches.len) == (3, 3) {
        let stretches = Stretches { count: 3, len: 3, ..stretches };
        product_tiles::<V>(a, a_step, stretches, rows, b, width, out, out_step);
    } else {
        product_tiles::<V>(a, a_step, stretches, rows, b, width, out, out_step);
    }
}

#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
fn product_tiles<V: Vector>(
    a: &[f32],
    a_step: usize,
    stretches: Stretches,
    rows: usize,
    b: &[f32],
    width: usize,
    out: &mut [f32],
    out_step: usize,
) {
    let depth = stretches.total();
    let mut j = 0;
    while j < width {
        let wide = WIDE.min((width - j) / V::LANES);
        let mut r = 0;
        while r < rows {
            let tall = ROWS.min(rows - r);
            // SAFETY: the tile covers rows r..r+tall and columns j..j+wide·LANES, inside what was asserted above.
            unsafe {
                let (a, b) = (a.as_ptr().add(r * a_step), b.as_ptr().add(j * depth));
                let out = out.as_mut_ptr().add(r * out_step + j);
                match (wide, tall) {
                    (WIDE, 6) => product_tile::<V, 6, 2>(a, a_step, stretches, b, out, out_step),
                    (WIDE, 5) => product_tile::<V, 5, 2>(a, a_step, stretches, b, out, out_step),
                    (WIDE, 4) => product_tile::<V, 4, 2>(a, a_step, stretches, b, out, out_step),
                    (WIDE, 3) => product_tile::<V, 3, 2>(a, a_step, stretches, b, out, out_step),
                    (WIDE, 2) => product_tile::<V, 2, 2>(a, a_step, stretches, b, out, out_step),
                    (WIDE, _) => product_tile::<V, 1, 2>(a, a_step, stretches, b, out, out_step),
                    (_, 6) => product_tile::<V, 6, 1>(a, a_step, stretches, b, out, out_step),
                    _ => {
                        for i in 0..tall {
                            let (a, out) = (a.add(i * a_step), out.add(i * out_step));
                            product_tile::<V, 1, 1>(a, a_step, stretches, b, out, out_step);
                        }
                    }
                }
            }
            r += tall;
        }
        j += wide * V::LANES;
    }
}

/// # Safety
/// `R` rows of the left operand, the packed panel and `R` x `N` vectors of the result must be in bounds.
#[inline(always)]
unsafe fn product_tile<V: Vector, const R: usize, const N: usize>(
    a: *const f32,
    a_step: usize,
    stretches: Stretches,
    mut b: *const f32,
    out: *mut f32,
    out_step: usize,
) {
    let mut sum = [[V::splat(0.0); N]; R];
    for s in 0..stretches.count {
        // SAFETY: the caller vouches for every row, column and depth visited here.
        unsafe {
            let a = a.add(s * stretches.step);
            for i in 0..stretches.len {
                let mut right = [V::splat(0.0); N];
                for n in 0..N {
                    right[n] = V::load(b.add(n * V::LANES));
                }
                for r in 0..R {
                    let left = V::splat(*a.add(r * a_step + i));
                    for n in 0..N {
                        sum[r][n] = left.fma(right[n], sum[r][n]);
                    }
                }
                b = b.add(N * V::LANES);
            }
        }
    }
    for r in 0..R {
        for n in 0..N {
            // SAFETY: as above.
            unsafe { sum[r][n].store(out.add(r * out_step + n * V::LANES)) };
        }
    }
}

/// sum[k, j] = Σ_t a[t, k] · d[t, j] over `terms` rows t, `a_step` and `d_step` apart, with `add` added to what is there;
/// k runs along the stretches, `sum` is `[depth, width]`, plain row by row.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
pub(crate) fn outer_sum<V: Vector>(
    a: &[f32],
    a_step: usize,
    stretches: Stretches,
    d: &[f32],
    d_step: usize,
    terms: usize,
    sum: &mut [f32],
    width: usize,
    add: bool,
) {
    if terms == 0 {
        if !add {
            sum[..stretches.total() * width].fill(0.0);
        }
        return;
    }
    assert!(a.len() >= (terms - 1) * a_step + stretches.reach(), "left operand");
    assert!(d.len() >= (terms - 1) * d_step + width && width.is_multiple_of(V::LANES), "right operand");
    assert!(sum.len() >= stretches.total() * width, "result");
    let depth = stretches.total();
    let mut k = 0;
    while k < depth {
        // Tiles of nearly equal height: those of few rows would wait for their own sums.
        let tall = (depth - k).div_ceil((depth - k).div_ceil(ROWS));
        let mut places = [0; ROWS];
        for (i, place) in places[..tall].iter_mut().enumerate() {
            *place = stretches.place(k + i);
        }
        let mut j = 0;
        while j < width {
            let wide = WIDE.min((width - j) / V::LANES);
            // SAFETY: the tile covers rows k..k+tall and columns j..j+wide·LANES, asserted above.
            unsafe {
                let (a, d) = (a.as_ptr(), d.as_ptr().add(j));
                let sum = sum.as_mut_ptr().add(k * width + j);
                match (wide, tall) {
                    (WIDE, 6) => outer_tile::<V, 6, 2>(a, &places, a_step, d, d_step, terms, sum, width, add),
                    (WIDE, 5) => outer_tile::<V, 5, 2>(a, &places, a_step, d, d_step, terms, sum, width, add),
                    (WIDE, 4) => outer_tile::<V, 4, 2>(a, &places, a_step, d, d_step, terms, sum, width, add),
                    (WIDE, 3) => outer_tile::<V, 3, 2>(a, &places, a_step, d, d_step, terms, sum, width, add),
                    (WIDE, 2) => outer_tile::<V, 2, 2>(a, &places, a_step, d, d_step, terms, sum, width, add),
                    (WIDE, _) => outer_tile::<V, 1, 2>(a, &places, a_step, d, d_step, terms, sum, width, add),
                    (_, 6) => outer_tile::<V, 6, 1>(a, &places, a_step, d, d_step, terms, sum, width, add),
                    _ => {
                        for i in 0..tall {
                            let (places, sum) = (&places[i..], sum.add(i * width));
                            outer_tile::<V, 1, 1>(a, places, a_step, d, d_step, terms, sum, width, add);
                        }
                    }
                }
            }
            j += wide * V::LANES;
        }
        k += tall;
    }
}

/// # Safety
/// `terms` rows of `a` with floats at `R` places, and `N` vectors of `d`, and `R` x `N` vectors of `sum`, must be in bounds.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "an inner kernel: slices and strides as the formula names them"
)]
unsafe fn outer_tile<V: Vector, const R: usize, const N: usize>(
    mut a: *const f32,
    places: &[usize],
    a_step: usize,
    mut d: *const f32,
    d_step: usize,
    terms: usize,
    sum: *mut f32,
    sum_step: usize,
    add: bool,
) {
    let mut acc = [[V::splat(0.0); N]; R];
    let mut at = [0; R];
    at.copy_from_slice(&places[..R]);
    // SAFETY: the caller vouches for every row and column visited here.
    unsafe {
        for _ in 0..terms {
            let mut right = [V::splat(0.0); N];
            for n in 0..N {
                right[n] = V::load(d.add(n * V::LANES));
            }
            for r in 0..R {
                let left = V::splat(*a.add(at[r]));
                for n in 0..N {
                    acc[r][n] = left.fma(right[n], acc[r][n]);
                }
            }
            a = a.wrapping_add(a_step);
            d = d.wrapping_add(d_step);
        }
        for r in 0..R {
            for n in 0..N {
                let p = sum.add(r * sum_step + n * V::LANES);
                if add { V::load(p).add(acc[r][n]).store(p) } else { acc[r][n].store(p) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Kernel;

    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    struct Both<'a> {
        isa: Isa,
        a: &'a [f32],
        a_step: usize,
        stretches: Stretches,
        rows: usize,
        width: usize,
        b: &'a [f32],
        d: &'a [f32],
    }
    impl Kernel for Both<'_> {
        type Output = (Vec<f32>, Vec<f32>);
        #[inline(always)]
        fn run<V: Vector>(self) -> Self::Output {
            let Self { isa, a, a_step, stretches, rows, width, b, d } = self;
            let depth = stretches.total();
            let mut packed = vec![0.0; depth * width];
            for k in 0..depth {
                for j in 0..width {
                    packed[packed_at(isa, depth, width, k, j)] = b[k * width + j];
                }
            }
            let mut out = vec![0.0; rows * width];
            product::<V>(a, a_step, stretches, rows, &packed, width, &mut out, width);
            let mut sum = vec![f32::NAN; depth * width];
            outer_sum::<V>(a, a_step, stretches, d, width, rows, &mut sum, width, false);
            outer_sum::<V>(a, a_step, stretches, d, width, rows, &mut sum, width, true);
            (out, sum)
        }
    }

    #[test]
    fn both_products_equal_their_definition_for_every_remainder() {
        for isa in Isa::available() {
            for rows in [1, 2, 3, 4, 5, 6, 7, 13] {
                for width in [16, 32, 48] {
                    for stretches in [Stretches::row(10), Stretches { count: 3, step: 17, len: 7 }] {
                        let (a_step, depth) = (5, stretches.total());
                        let at = |t: usize, k: usize| {
                            t * a_step + k / stretches.len * stretches.step + k % stretches.len
                        };
                        let a = numbers(at(rows - 1, depth - 1) + 1, 1);
                        let (b, d) = (numbers(depth * width, 2), numbers(rows * width, 3));
                        let (out, sum) =
                            isa.run(Both { isa, a: &a, a_step, stretches, rows, width, b: &b, d: &d });
                        for r in 0..rows {
                            for j in 0..width {
                                let twin: f32 = (0..depth).map(|k| a[at(r, k)] * b[k * width + j]).sum();
                                assert!((out[r * width + j] - twin).abs() < 1e-5);
                            }
                        }
                        for k in 0..depth {
                            for j in 0..width {
                                let twin: f32 = (0..rows).map(|t| a[at(t, k)] * d[t * width + j]).sum();
                                assert!((sum[k * width + j] - 2.0 * twin).abs() < 1e-5);
                            }
                        }
                    }
                }
            }
        }
    }
}
