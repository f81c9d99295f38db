//! The most multiply-adds a core of this machine makes: what a kernel's speed is measured against.

use crate::simd::{Isa, Kernel, Vector};

/// Does `rounds` rounds of independent multiply-adds in registers; returns the floating-point operations made (two a
/// multiply-add) and a number that depends on all of them. The caller times it.
pub fn multiply_adds(isa: Isa, rounds: usize) -> (f64, f32) {
    isa.run(MultiplyAdds { rounds })
}

/// Chains that do not wait for each other: more than latency times throughput (4 x 2) of current cores.
const CHAINS: usize = 12;

struct MultiplyAdds {
    rounds: usize,
}

impl Kernel for MultiplyAdds {
    type Output = (f64, f32);
    #[inline(always)]
    fn run<V: Vector>(self) -> (f64, f32) {
        let mut sums = [V::splat(0.0); CHAINS];
        // Opaque to the compiler, or it would compute the result itself.
        let (a, b) = (V::splat(std::hint::black_box(0.5)), V::splat(std::hint::black_box(1.0)));
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = sum.fma(a, b);
            }
        }
        let mut total = sums[0];
        for &sum in &sums[1..] {
            total = total.add(sum);
        }
        (2.0 * (CHAINS * V::LANES * self.rounds) as f64, total.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_multiply_adds_are_really_made() {
        for isa in Isa::available() {
            // x ← x/2 + 1 has the fixed point 2.
            let (flops, total) = multiply_adds(isa, 100);
            assert_eq!(flops, (2 * CHAINS * isa.lanes() * 100) as f64);
            assert_eq!(total, 2.0 * CHAINS as f32);
            assert_eq!(multiply_adds(isa, 1).1, CHAINS as f32);
        }
    }
}
