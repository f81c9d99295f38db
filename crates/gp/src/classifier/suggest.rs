//! Which rows of a pool to label next.

use super::GpClassifier;
use crate::Result;
use crate::active::{Criterion, Suggestion, batch};
use faer::MatRef;

impl GpClassifier {
    /// At most `count` rows of `pool` [M, D] whose labels would tell the most, the most telling first, unlike each other.
    pub fn suggest(&self, pool: MatRef<'_, f64>, count: usize, by: Criterion) -> Result<Vec<Suggestion>> {
        let model = self.model()?;
        let x = model.standardised(pool)?;
        let (latent, probs) = model.answer(x.as_ref())?;
        let scores = by.scores(&latent, &probs)?;
        let kernel = model.kernel();
        let features = kernel.features(x.as_ref())?;
        batch(&scores, count, |row| {
            let one = features.select(&[row]);
            Ok(kernel.correlation(&features, &one)?.col_as_slice(0).to_vec())
        })
    }
}
