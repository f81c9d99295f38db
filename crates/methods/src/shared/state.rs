//! The state of a method as named arrays: what a checkpoint holds.

use crate::error::{Error, Result};
use siskin_nn::{NamedTensor, NetworkState};

/// Values of one array.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Single precision: the network and its optimiser.
    F32(Vec<f32>),
    /// Double precision: the Gaussian process and its optimiser.
    F64(Vec<f64>),
}

/// What an array is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Part of the model: predictions need it.
    Model,
    /// Needed to go on with training, and for nothing else: moments of an optimiser, counters, a warm start.
    Training,
}

impl Role {
    /// The role of an array in a file, which has names and no roles. Arrays of [`Role::Training`] have a part `adam` in their
    /// names, begin with `carried.`, `gibbs.` or `average.`, or end with `.steps`; a test holds every method to it.
    pub fn of_name(name: &str) -> Role {
        let training = name.split('.').any(|part| part == "adam")
            || ["carried.", "gibbs.", "average."].iter().any(|start| name.starts_with(start))
            || name.ends_with(".steps");
        if training { Role::Training } else { Role::Model }
    }
}

/// One named array.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name, e.g. `network.block0.conv.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub values: Values,
    /// What it is for.
    pub role: Role,
}

/// All arrays of a method.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State(pub Vec<Tensor>);

impl State {
    /// Adds a vector of double-precision numbers that belongs to the model.
    pub fn push_f64(&mut self, name: &str, values: &[f64]) {
        self.push(name, values, Role::Model);
    }

    /// Adds a vector of double-precision numbers that only training needs.
    pub fn push_training(&mut self, name: &str, values: &[f64]) {
        self.push(name, values, Role::Training);
    }

    fn push(&mut self, name: &str, values: &[f64], role: Role) {
        let (shape, values) = (vec![values.len()], Values::F64(values.to_vec()));
        self.0.push(Tensor { name: name.into(), shape, values, role });
    }

    /// The array of this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|t| t.name == name)
    }

    /// The vector of double-precision numbers named so.
    pub fn f64s(&self, name: &str) -> Result<&[f64]> {
        match self.0.iter().find(|t| t.name == name).map(|t| &t.values) {
            Some(Values::F64(values)) => Ok(values),
            Some(Values::F32(_)) => Err(Error::State(format!("`{name}` is in single precision"))),
            None => Err(Error::State(format!("`{name}` is missing"))),
        }
    }

    /// The state of a method that is a network and nothing else.
    pub fn of_network(network: NetworkState) -> State {
        let mut state = State::default();
        state.push_network(network);
        state
    }

    /// Adds a network under `network.`.
    pub fn push_network(&mut self, network: NetworkState) {
        self.push_network_as("network", network);
    }

    /// Adds a network under a name of its own, for a method with several.
    pub fn push_network_as(&mut self, prefix: &str, network: NetworkState) {
        self.push_training(&format!("{prefix}.steps"), &[network.steps as f64]);
        for (tensors, role) in [(network.model, Role::Model), (network.moments, Role::Training)] {
            self.0.extend(tensors.into_iter().map(|t| Tensor {
                name: format!("{prefix}.{}", t.name),
                shape: t.shape,
                values: Values::F32(t.values),
                role,
            }));
        }
    }

    /// Puts the weights of a backbone in the place of those of the network that [`State::push_network`] added.
    pub fn put_backbone(&mut self, weights: Vec<NamedTensor>) -> Result<()> {
        for NamedTensor { name, shape, values } in weights {
            let name = format!("network.{name}");
            let place = self.0.iter_mut().find(|t| t.name == name && t.shape == shape);
            let place =
                place.ok_or_else(|| Error::State(format!("it has no `{name}` of shape {shape:?}")))?;
            place.values = Values::F32(values);
        }
        Ok(())
    }

    /// The network added by [`State::push_network`].
    pub fn network(&self) -> Result<NetworkState> {
        self.network_as("network")
    }

    /// The network added by [`State::push_network_as`].
    pub fn network_as(&self, prefix: &str) -> Result<NetworkState> {
        let own = |name: &str| Some(name.strip_prefix(prefix)?.strip_prefix('.')?.to_owned());
        let tensors = self.0.iter().filter_map(|t| match (&t.values, own(&t.name)) {
            (Values::F32(values), Some(name)) => {
                Some(NamedTensor { name, shape: t.shape.clone(), values: values.clone() })
            }
            _ => None,
        });
        let (moments, model) = tensors.partition(|t: &NamedTensor| siskin_nn::is_moment(&t.name));
        let steps = format!("{prefix}.steps");
        let &[steps] = self.f64s(&steps)? else {
            return Err(Error::State(format!("`{steps}` is not one number")));
        };
        Ok(NetworkState { model, moments, steps: steps as u64 })
    }
}
