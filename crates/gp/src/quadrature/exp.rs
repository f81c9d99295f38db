//! exp and log(1 + e) on four numbers at once, in plain arithmetic the compiler turns into vector instructions.
//!
//! Every multiply-add is fused, in code and so on every machine: the same bits everywhere. (A processor without the
//! instruction computes it in software, slowly; x86 has it since 2013.)

/// How many numbers are treated at once.
pub(super) const LANES: usize = 4;

/// Four numbers.
pub(super) type Lanes = [f64; LANES];

/// exp(r) = 1 + r + r^2 P(r): P interpolates at Chebyshev nodes of |r| <= log(2) / 2; the error of exp is 1.6e-17.
const P: [f64; 10] = [
    0.500_000_000_000_000_1,
    0.166_666_666_666_666_69,
    0.041_666_666_666_624_13,
    0.008_333_333_333_330_062,
    0.001_388_888_891_721_371_7,
    0.000_198_412_698_630_536_18,
    2.480_152_129_595_437_6e-5,
    2.755_726_845_999_706_4e-6,
    2.762_008_844_540_974_6e-7,
    2.510_038_549_551_032e-8,
];

/// exp(x) to 2 units in the last place for x in [-708, 709]; below, the smallest normal numbers (3e-308).
#[inline(always)]
pub(super) fn exp(x: Lanes) -> Lanes {
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    // log 2 in two parts.
    const LN2_HI: f64 = 0.693_147_180_369_123_8;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        let x = if x[l] > -708.0 { x[l] } else { -708.0 };
        let shifted = x.mul_add(LOG2_E, ROUND);
        let n = shifted - ROUND;
        let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
        // Pairs, then pairs of pairs: short chains of dependent operations.
        let (r2, pair) = (r * r, |k: usize| P[k + 1].mul_add(r, P[k]));
        let r4 = r2 * r2;
        let low = pair(2).mul_add(r2, pair(0));
        let high = pair(8).mul_add(r4, pair(6).mul_add(r2, pair(4)));
        let p = high.mul_add(r4, low).mul_add(r2, r) + 1.0;
        let two_to_n = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
        out[l] = p * two_to_n;
    }
    out
}

/// log(1 + e) for e in [0, 1], to 2 units in the last place: 2 atanh(y) with y = e / (2 + e) <= 1/3.
#[inline(always)]
pub(super) fn log_1p(e: Lanes) -> Lanes {
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        let y = e[l] / (2.0 + e[l]);
        let y2 = y * y;
        // 1/3 + y^2/5 + y^4/7 + ...: the first term left out is 9^-17 / 37.
        let mut sum = 1.0 / 35.0;
        for k in (1..17).rev() {
            sum = y2.mul_add(sum, 1.0 / (2 * k + 1) as f64);
        }
        out[l] = 2.0 * (y * y2).mul_add(sum, y);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        let e = [exp([0.0, -0.0, -708.0, -1e300]), exp([f64::NEG_INFINITY, 1.0, -1.0, 700.0])].concat();
        assert_eq!((e[0], e[1]), (1.0, 1.0));
        assert!(e[2] > 0.0 && e[2] < 3.5e-308 && e[3] == e[2] && e[4] == e[2]);
        for (got, x) in [(e[5], 1.0f64), (e[6], -1.0), (e[7], 700.0)] {
            assert!((got / x.exp() - 1.0).abs() < 5e-16);
        }
        assert_eq!(log_1p([0.0, 1e-300, 1e-20, 0.0]), [0.0, 1e-300, 1e-20, 0.0]);
    }

    proptest! {
        #[test]
        fn agree_with_the_standard_library(x in prop::array::uniform4(-708.0..1.0f64), e in prop::array::uniform4(0.0..=1.0f64)) {
            let (exp, log) = (exp(x), log_1p(e));
            for l in 0..LANES {
                prop_assert!((exp[l] / x[l].exp() - 1.0).abs() < 5e-16, "x = {}", x[l]);
                prop_assert!((log[l] - e[l].ln_1p()).abs() <= 5e-16 * e[l], "e = {}", e[l]);
            }
        }
    }
}
