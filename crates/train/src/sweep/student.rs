//! The 95 % interval of a mean over few seeds.

/// `mean ± t s / sqrt(n)` with Student's t for n - 1 degrees of freedom: the mean and half the width; none of less than two.
pub(super) fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let s = (squares / (n - 1) as f64).sqrt();
    Some((mean, quantile(n - 1) * s / (n as f64).sqrt()))
}

/// What |t| exceeds with probability 0.05, of 1 to 10 degrees of freedom.
const FEW: [f64; 10] = [
    12.706_204_736,
    4.302_652_730,
    3.182_446_305,
    2.776_445_105,
    2.570_581_836,
    2.446_911_851,
    2.364_624_252,
    2.306_004_135,
    2.262_157_163,
    2.228_138_852,
];

fn quantile(degrees: usize) -> f64 {
    if let Some(t) = FEW.get(degrees - 1) {
        return *t;
    }
    // Cornish and Fisher's expansion about the normal quantile (Abramowitz and Stegun 26.7.5).
    let (z, d) = (1.959_963_984_540_054_f64, degrees as f64);
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    let g4 = (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5) - 1920.0 * z.powi(3) - 945.0 * z)
        / 92_160.0;
    z + g1 / d + g2 / d.powi(2) + g3 / d.powi(3) + g4 / d.powi(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_scipy() {
        // scipy.stats.t.ppf(0.975, degrees)
        for (degrees, t) in [
            (1, 12.706204736174698),
            (4, 2.7764451051977934),
            (10, 2.2281388519862743),
            (11, 2.200985160091638),
            (30, 2.0422724563012378),
            (1000, 1.9623390808264074),
        ] {
            assert!((quantile(degrees) - t).abs() < 2e-5, "{degrees}: {} {t}", quantile(degrees));
        }
    }

    #[test]
    fn two_values_have_the_interval_of_one_degree() {
        assert_eq!(interval(&[1.0]), None);
        let (mean, half) = interval(&[1.0, 3.0]).unwrap();
        // s = sqrt(2), s / sqrt(2) = 1.
        assert_eq!(mean, 2.0);
        assert!((half - 12.706_204_736).abs() < 1e-9);
    }
}
