//! The block on AVX-512 BF16: one instruction multiplies sixteen pairs and adds both products to sixteen sums.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::BLOCK;

/// Rows of a register tile: 8 x 2 sums leave room for operands in 32 registers.
const ROWS: usize = 8;

/// The same bits as sixteen pairs of bf16 numbers.
#[inline(always)]
fn pairs(bits: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits, of which every pattern is valid.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}

/// # Safety
/// The CPU has AVX-512 F and BF16; the operands reach as far as `Session::multiply` asserts.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn multiply(
    a: *const u16,
    a_row: usize,
    steps: &[usize],
    b: *const u16,
    b_row: usize,
    out: &mut [f32; BLOCK * BLOCK],
) {
    for i in (0..BLOCK).step_by(ROWS) {
        let mut sum = [[_mm512_setzero_ps(); 2]; ROWS];
        // SAFETY: the caller vouches for all that is read here.
        unsafe {
            let mut b = b;
            for step in steps {
                let a = a.add(i * a_row + step);
                for pair in 0..BLOCK / 2 {
                    let right =
                        [_mm512_loadu_si512(b.cast()), _mm512_loadu_si512(b.add(BLOCK).cast())].map(pairs);
                    for r in 0..ROWS {
                        let left = a.add(r * a_row + 2 * pair).cast::<i32>().read_unaligned();
                        let left = pairs(_mm512_set1_epi32(left));
                        for n in 0..2 {
                            sum[r][n] = _mm512_dpbf16_ps(sum[r][n], left, right[n]);
                        }
                    }
                    // Past the last row this points beyond the operand, and nothing is read there.
                    b = b.wrapping_add(b_row);
                }
            }
            for r in 0..ROWS {
                for n in 0..2 {
                    _mm512_storeu_ps(out.as_mut_ptr().add((i + r) * BLOCK + 16 * n), sum[r][n]);
                }
            }
        }
    }
}
