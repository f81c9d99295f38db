//! What one phase hands over to the next.

use crate::phase::Scalars;
use siskin_methods::{Role, State, Values};

/// The fresh state of a method with what was learned before it: every array of the same name, shape and precision. The
/// networks are in single precision, the numbers of the heads in double precision; those stay fresh if `scalars` says so.
/// The optimiser starts from zero.
pub(super) fn handed_over(fresh: State, before: &State, scalars: Scalars) -> State {
    let mut state = fresh;
    for tensor in state.0.iter_mut().filter(|t| t.role == Role::Model) {
        let network = matches!(tensor.values, Values::F32(_));
        let Some(old) = before.get(&tensor.name).filter(|old| old.shape == tensor.shape) else { continue };
        let alike = std::mem::discriminant(&old.values) == std::mem::discriminant(&tensor.values);
        if alike && (network || scalars == Scalars::Keep) {
            tensor.values.clone_from(&old.values);
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_methods::Tensor;

    fn state(weight: f32, hyper: &[f64], moment: f64) -> State {
        let mut state = State::default();
        let values = Values::F32(vec![weight]);
        state.0.push(Tensor { name: "network.w".into(), shape: vec![1], values, role: Role::Model });
        state.push_f64("hyper", hyper);
        state.push_training("hyper.adam.m", &[moment]);
        state
    }

    #[test]
    fn weights_and_fitting_scalars_are_handed_over_and_moments_are_not() {
        let before = state(1.0, &[0.1, 0.2], 5.0);
        let after = |hyper: &[f64], scalars| handed_over(state(0.0, hyper, 0.0), &before, scalars);
        assert_eq!(after(&[7.0, 8.0], Scalars::Keep), state(1.0, &[0.1, 0.2], 0.0));
        assert_eq!(after(&[7.0, 8.0], Scalars::Fresh), state(1.0, &[7.0, 8.0], 0.0));
        assert_eq!(after(&[7.0], Scalars::Keep), state(1.0, &[7.0], 0.0), "another number of scalars");
    }
}
