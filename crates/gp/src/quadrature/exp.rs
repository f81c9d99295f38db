//! exp on eight numbers at once, in plain arithmetic the compiler turns into vector instructions.
//!
//! No fused multiply-add: the same bits on every machine, whatever its vector width.

/// How many numbers are treated at once.
pub(super) const LANES: usize = 8;

/// Eight numbers.
pub(super) type Lanes = [f64; LANES];

/// 1/k! for k = 0..=13: the remainder on |r| <= log(2) / 2 is 4e-18.
const INV_FACTORIAL: [f64; 14] = {
    let mut c = [1.0; 14];
    let mut k = 1;
    while k < 14 {
        c[k] = c[k - 1] / k as f64;
        k += 1;
    }
    c
};

/// exp(x) to 2 units in the last place for x in [-708, 709]; below, the smallest normal numbers (3e-308).
#[inline(always)]
pub(super) fn exp(x: Lanes) -> Lanes {
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    // log 2 in two parts: products with integers below 2^11 and the first are exact.
    const LN2_HI: f64 = 0.693_147_180_369_123_8;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let c = &INV_FACTORIAL;
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        let x = if x[l] > -708.0 { x[l] } else { -708.0 };
        let shifted = x * LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = (x - n * LN2_HI) - n * LN2_LO;
        // Pairs, then pairs of pairs: short chains of dependent operations.
        let r2 = r * r;
        let r4 = r2 * r2;
        let p0 = (c[0] + c[1] * r) + (c[2] + c[3] * r) * r2;
        let p4 = (c[4] + c[5] * r) + (c[6] + c[7] * r) * r2;
        let p8 = (c[8] + c[9] * r) + (c[10] + c[11] * r) * r2;
        let p12 = c[12] + c[13] * r;
        let p = p0 + (p4 + (p8 + p12 * r4) * r4) * r4;
        let two_to_n = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
        out[l] = p * two_to_n;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        let e = exp([0.0, -0.0, -708.0, -1e300, f64::NEG_INFINITY, 1.0, -1.0, 700.0]);
        assert_eq!((e[0], e[1]), (1.0, 1.0));
        assert!(e[2] > 0.0 && e[2] < 3.5e-308 && e[3] == e[2] && e[4] == e[2]);
        for (got, x) in [(e[5], 1.0f64), (e[6], -1.0), (e[7], 700.0)] {
            assert!((got / x.exp() - 1.0).abs() < 5e-16);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(x in prop::array::uniform8(-708.0..1.0f64)) {
            let e = exp(x);
            for l in 0..LANES {
                prop_assert!((e[l] / x[l].exp() - 1.0).abs() < 5e-16, "x = {}", x[l]);
            }
        }
    }
}
