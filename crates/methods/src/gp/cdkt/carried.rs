//! What the published code hands from one episode to the next: marginals of the previous task, and fresh random starts.

use crate::error::{Error, Result};
use crate::shared::state::State;
use faer::Mat;
use siskin_gp::objective::{Carry, Draw};
use siskin_random::stream;

/// The warm start of `objective = "released"`.
#[derive(Debug, Clone, Default)]
pub(super) struct Carried {
    carry: Option<Carry>,
    /// Episodes so far: the index of the next one's random numbers.
    draws: u64,
}

impl Carried {
    /// The start of the next episode. A task of another shape than the last begins afresh, as the first one does.
    pub(super) fn next(&self, seed: u64, points: usize, classes: usize) -> (Carry, Draw) {
        let mut rng = stream(seed, "released", self.draws);
        let draw = Draw::new(points, classes, &mut rng);
        let fits = self.carry.as_ref().filter(|c| c.mu.nrows() == points && c.mu.ncols() == classes);
        let carry = fits.cloned().unwrap_or_else(|| Carry::first(points, classes, &mut rng));
        (carry, draw)
    }

    /// Episodes so far.
    pub(super) fn episodes(&self) -> u64 {
        self.draws
    }

    /// After an episode.
    pub(super) fn advance(&mut self, carry: Option<Carry>) {
        self.draws += 1;
        self.carry = carry;
    }

    /// Goes on as if so many episodes had come before.
    pub(super) fn skip(&mut self, episodes: u64) {
        self.draws += episodes;
    }

    /// What the latest episode left: the number of classes, then mu and v, class by class.
    pub(super) fn changed(&self) -> Vec<f64> {
        let Some(Carry { mu, v }) = &self.carry else { return vec![0.0] };
        let columns = [mu, v].into_iter().flat_map(|m| (0..m.ncols()).flat_map(|j| m.col_as_slice(j)));
        [mu.ncols() as f64].into_iter().chain(columns.copied()).collect()
    }

    /// After an episode that [`Carried::changed`] this.
    pub(super) fn take_over(&mut self, changed: &[f64]) -> Result<()> {
        let (classes, rest) =
            changed.split_first().ok_or_else(|| Error::State("nothing is carried".into()))?;
        let (mu, v) = rest.split_at(rest.len() / 2);
        self.advance(carry(mu, v, *classes as usize)?);
        Ok(())
    }

    /// Adds itself to a state.
    pub(super) fn save(&self, state: &mut State) {
        let classes = self.carry.as_ref().map_or(0, |c| c.mu.ncols());
        let values = |m: fn(&Carry) -> &Mat<f64>| -> Vec<f64> {
            self.carry
                .iter()
                .flat_map(|c| (0..classes).flat_map(move |j| m(c).col_as_slice(j).to_vec()))
                .collect()
        };
        state.push_training("carried.position", &[self.draws as f64, classes as f64]);
        state.push_training("carried.mu", &values(|c| &c.mu));
        state.push_training("carried.v", &values(|c| &c.v));
    }

    /// Takes itself back.
    pub(super) fn load(state: &State) -> Result<Carried> {
        let &[draws, classes] = state.f64s("carried.position")? else {
            return Err(Error::State("`carried.position` has not two numbers".into()));
        };
        let (mu, v) = (state.f64s("carried.mu")?, state.f64s("carried.v")?);
        Ok(Carried { carry: carry(mu, v, classes as usize)?, draws: draws as u64 })
    }
}

/// Marginals of so many classes, class by class; nothing of none.
fn carry(mu: &[f64], v: &[f64], classes: usize) -> Result<Option<Carry>> {
    if mu.len() != v.len() || (classes > 0 && !mu.len().is_multiple_of(classes)) {
        return Err(Error::State("`carried.mu` and `carried.v` differ in size".into()));
    }
    let table = |x: &[f64]| Mat::from_fn(x.len() / classes, classes, |i, j| x[j * (x.len() / classes) + i]);
    Ok((classes > 0).then(|| Carry { mu: table(mu), v: table(v) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_exactly() {
        let mut carried = Carried::default();
        let (first, _) = carried.next(3, 4, 2);
        for _ in 0..2 {
            let mut state = State::default();
            carried.save(&mut state);
            let again = Carried::load(&state).unwrap();
            let (a, b) = (carried.next(3, 4, 2), again.next(3, 4, 2));
            assert_eq!((a.0.mu, a.0.v, a.1.alpha, a.1.omega), (b.0.mu, b.0.v, b.1.alpha, b.1.omega));
            carried.advance(Some(first.clone()));
        }
        assert_ne!(carried.next(3, 5, 2).0.mu.nrows(), 4, "another shape begins afresh");
    }
}
