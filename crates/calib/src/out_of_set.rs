//! "None of these": scores that are larger for inputs of unknown classes, and how well they tell them apart.

use crate::error::{Error, finite};
use crate::predictions::{Probabilities, check_shape};

/// Entropy of each row, `-sum_c p_c log p_c`, in nats: 0 when certain, `log C` when uniform.
pub fn entropy(probabilities: &Probabilities) -> Vec<f64> {
    let term = |&p: &f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    probabilities.rows().map(|row| row.iter().map(term).sum()).collect()
}

/// Mean latent variance of each row, `1/C sum_c v_c`: large far from everything the classifier has seen.
///
/// `variances`: `[N, C]` row-major, not negative.
pub fn latent_variance(variances: &[f64], classes: usize) -> Result<Vec<f64>, Error> {
    check_shape("latent variances", variances.len(), classes)?;
    if let Some(index) = variances.iter().position(|v| !(*v >= 0.0 && v.is_finite())) {
        return Err(Error::BadValue { what: "latent variances", index, value: variances[index] });
    }
    Ok(variances.chunks_exact(classes).map(|v| v.iter().sum::<f64>() / classes as f64).collect())
}

/// Area under the ROC curve: `P(out > in) + P(out = in) / 2` for a score of each kind drawn at random.
///
/// 1 if every out-of-set score is above every in-set score, 0.5 if the score says nothing.
pub fn auroc(in_set: &[f64], out_of_set: &[f64]) -> Result<f64, Error> {
    finite("in-set scores", in_set)?;
    finite("out-of-set scores", out_of_set)?;
    let inside = in_set.iter().map(|&score| (score, false));
    let mut all: Vec<(f64, bool)> = inside.chain(out_of_set.iter().map(|&score| (score, true))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Counted in halves, so in whole numbers: an in-set score below is two, an equal one is one.
    let (mut halves, mut inside_below) = (0u128, 0u128);
    for tied in all.chunk_by(|a, b| a.0 == b.0) {
        let outside = tied.iter().filter(|t| t.1).count() as u128;
        let inside = tied.len() as u128 - outside;
        halves += outside * (2 * inside_below + inside);
        inside_below += inside;
    }
    let pairs = 2 * in_set.len() as u128 * out_of_set.len() as u128;
    Ok(halves as f64 / pairs as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scores_by_hand() {
        let p = Probabilities::new(vec![1.0, 0.0, 0.5, 0.5, 0.25, 0.75], 2).unwrap();
        let h = entropy(&p);
        assert_eq!(h[0], 0.0);
        assert!((h[1] - 2f64.ln()).abs() < 1e-15);
        // scipy.stats.entropy([0.25, 0.75])
        assert!((h[2] - 0.562_335_144_618_808_3).abs() < 1e-15);
        assert_eq!(latent_variance(&[1.0, 3.0, 0.0, 0.5], 2).unwrap(), [2.0, 0.25]);
    }

    #[test]
    fn auroc_matches_scikit_learn() {
        // roc_auc_score([0]*5 + [1]*4, [0.1, 0.4, 0.35, 0.8, 0.4, 0.4, 0.9, 0.8, 0.2])
        let got = auroc(&[0.1, 0.4, 0.35, 0.8, 0.4], &[0.4, 0.9, 0.8, 0.2]).unwrap();
        assert_eq!(got, 0.675);
        assert_eq!(auroc(&[0.0, 1.0], &[2.0]), Ok(1.0));
        assert_eq!(auroc(&[0.0, -0.0], &[-0.0, 0.0]), Ok(0.5));
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(auroc(&[], &[1.0]), Err(Error::Empty { what: "in-set scores" }));
        assert_eq!(auroc(&[1.0], &[]), Err(Error::Empty { what: "out-of-set scores" }));
        assert!(matches!(auroc(&[1.0, f64::NAN], &[1.0]), Err(Error::BadValue { index: 1, .. })));
        assert!(matches!(latent_variance(&[1.0, -1.0], 2), Err(Error::BadValue { index: 1, .. })));
        assert!(matches!(latent_variance(&[1.0, f64::NAN], 2), Err(Error::BadValue { index: 1, .. })));
        assert_eq!(latent_variance(&[], 2), Err(Error::Empty { what: "latent variances" }));
        assert!(matches!(latent_variance(&[1.0; 3], 2), Err(Error::RaggedRows { .. })));
    }

    proptest! {
        #[test]
        fn auroc_is_the_share_of_pairs(
            inside in prop::collection::vec(0u8..6, 1..20),
            outside in prop::collection::vec(0u8..6, 1..20),
        ) {
            let pair = |i: u8, o: u8| if o > i { 1.0 } else if o == i { 0.5 } else { 0.0 };
            let wins: f64 = inside.iter().flat_map(|&i| outside.iter().map(move |&o| pair(i, o))).sum();
            let expected = wins / (inside.len() * outside.len()) as f64;
            let inside: Vec<f64> = inside.into_iter().map(f64::from).collect();
            let outside: Vec<f64> = outside.into_iter().map(f64::from).collect();
            prop_assert!((auroc(&inside, &outside).unwrap() - expected).abs() < 1e-14);
        }
    }
}
