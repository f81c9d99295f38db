//! The product of two blocks of bf16 numbers with sums in f32, by whatever multiplies them.
#![allow(unsafe_code)]

use super::{BLOCK, Unit};
use crate::simd::{Kernel, Vector};

/// Where in the left operand each step of a product begins.
pub(super) struct Steps {
    begin: Vec<usize>,
    furthest: usize,
}

impl Steps {
    pub(super) fn new(begin: Vec<usize>) -> Self {
        Self { furthest: begin.iter().copied().max().unwrap_or(0), begin }
    }
}

/// A stretch of work with one unit. AMX tiles are set up when it starts and given back when it ends.
pub(super) struct Session {
    unit: Unit,
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    _tiles: Option<super::amx::Tiles>,
}

impl Session {
    pub(super) fn start(unit: Unit) -> Self {
        Self {
            unit,
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            _tiles: (unit == Unit::Amx).then(super::amx::Tiles::set_up),
        }
    }

    /// out[i, j] = Σ_s Σ_k a[i·a_row + steps[s] + k] · b[(16s + k/2)·b_row + 2j + k%2] for i, j, k in 0..32.
    #[expect(
        clippy::too_many_arguments,
        reason = "an inner kernel: slices and strides as the formula names them"
    )]
    pub(super) fn multiply(
        &self,
        a: &[u16],
        a_row: usize,
        Steps { begin: steps, furthest }: &Steps,
        b: &[u16],
        b_row: usize,
        out: &mut [f32; BLOCK * BLOCK],
    ) {
        if steps.is_empty() {
            return out.fill(0.0);
        }
        assert!(a.len() >= (BLOCK - 1) * a_row + furthest + BLOCK, "left operand");
        assert!(b.len() >= (steps.len() * BLOCK / 2 - 1) * b_row + 2 * BLOCK, "right operand");
        // SAFETY: all that the blocks below read is inside what was asserted; the unit exists, since `Unit::hardware`
        // found it, and AMX tiles are set up as long as this session lives.
        unsafe {
            match self.unit {
                Unit::Vectors(isa) => {
                    isa.run(Multiply { a: a.as_ptr(), a_row, steps, b: b.as_ptr(), b_row, out })
                }
                #[cfg(target_arch = "x86_64")]
                Unit::Avx512Bf16 => super::avx512::multiply(a.as_ptr(), a_row, steps, b.as_ptr(), b_row, out),
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Unit::Amx => super::amx::multiply(a.as_ptr(), a_row, steps, b.as_ptr(), b_row, out),
            }
        }
    }
}

/// Rows of a register tile: 4 x 2 sums, 4 right and 2 left operands fit AVX2's 16 registers.
const ROWS: usize = 4;

struct Multiply<'a> {
    a: *const u16,
    a_row: usize,
    steps: &'a [usize],
    b: *const u16,
    b_row: usize,
    out: &'a mut [f32; BLOCK * BLOCK],
}

impl Kernel for Multiply<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { a, a_row, steps, b, b_row, out } = self;
        for i in (0..BLOCK).step_by(ROWS) {
            for j in (0..BLOCK).step_by(2 * V::LANES) {
                let mut sum = [[V::splat(0.0); 2]; ROWS];
                // SAFETY: `Session::multiply`, the only caller, asserted that both operands reach this far.
                unsafe {
                    let mut b = b.add(2 * j);
                    for step in steps {
                        let a = a.add(i * a_row + step);
                        for pair in 0..BLOCK / 2 {
                            let right = [V::load_pairs(b), V::load_pairs(b.add(2 * V::LANES))];
                            for r in 0..ROWS {
                                let left = V::splat_pair(a.add(r * a_row + 2 * pair));
                                for n in 0..2 {
                                    sum[r][n] = left.0.fma(right[n].0, sum[r][n]);
                                    sum[r][n] = left.1.fma(right[n].1, sum[r][n]);
                                }
                            }
                            // Past the last row this points beyond the operand, and nothing is read there.
                            b = b.wrapping_add(b_row);
                        }
                    }
                    for r in 0..ROWS {
                        for n in 0..2 {
                            sum[r][n].store(out.as_mut_ptr().add((i + r) * BLOCK + j + n * V::LANES));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::number::{round, widen};
    use super::*;
    use crate::simd::Isa;

    /// Every unit against sums in f64 of the same rounded numbers.
    #[test]
    fn a_block_is_the_sum_of_its_products() {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            round((state >> 8) as f32 / (1u32 << 23) as f32 - 1.0)
        };
        let mut units: Vec<Unit> = Isa::available().into_iter().map(Unit::Vectors).collect();
        let hardware = Unit::hardware();
        for (unit, name) in [("Amx", "AMX"), ("Avx512Bf16", "AVX-512 BF16")] {
            if !hardware.iter().any(|found| format!("{found:?}") == unit) {
                println!("skipped: this CPU has no {name}");
            }
        }
        units.extend(hardware);
        for (a_row, steps, b_row) in
            [(32, vec![0], 64), (40, vec![8, 3, 70], 64), (97, (0..20).map(|s| 5 * s).collect(), 128)]
        {
            let a: Vec<u16> = (0..31 * a_row + 200).map(|_| next()).collect();
            let b: Vec<u16> = (0..(steps.len() * 16 - 1) * b_row + 64).map(|_| next()).collect();
            for &unit in &units {
                let mut out = [f32::NAN; BLOCK * BLOCK];
                Session::start(unit).multiply(&a, a_row, &Steps::new(steps.clone()), &b, b_row, &mut out);
                for i in 0..BLOCK {
                    for j in 0..BLOCK {
                        let mut twin = 0.0;
                        for (s, step) in steps.iter().enumerate() {
                            for k in 0..BLOCK {
                                let left = widen(a[i * a_row + step + k]);
                                let right = widen(b[(16 * s + k / 2) * b_row + 2 * j + k % 2]);
                                twin += f64::from(left) * f64::from(right);
                            }
                        }
                        let found = f64::from(out[i * BLOCK + j]);
                        assert!((found - twin).abs() < 1e-4, "{unit:?} ({i}, {j}): {found} and {twin}");
                    }
                }
            }
        }
    }
}
