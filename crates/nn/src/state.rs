//! The values of a module as named tensors on the host, and back.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};

use crate::Error;

/// A tensor on the host: what a checkpoint stores.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Its place in the module, such as `blocks.0.conv.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values in row-major order.
    pub values: Vec<f32>,
}

/// A parameter's description: what is there, without its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub name: String,
    pub shape: Vec<usize>,
    pub trained: bool,
}

/// The path of a parameter from the names of fields and indices. Enum variants, the wrapper field that holds them and
/// the backbone's place in a whole network are no part of it, so that a checkpoint does not depend on how the
/// architectures are grouped, and a backbone has the same names with and without a head.
#[derive(Default)]
struct Path(Vec<Option<String>>);

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        let hidden = container.starts_with("Enum:") || name == "layers" || name == "backbone";
        self.0.push((!hidden).then(|| name.to_owned()));
    }

    fn exit(&mut self) {
        self.0.pop();
    }

    fn join(&self) -> String {
        let names: Vec<&str> = self.0.iter().flatten().map(String::as_str).collect();
        names.join(".")
    }
}

struct Lister {
    path: Path,
    slots: Vec<Slot>,
    values: Option<Vec<Vec<f32>>>,
}

impl ModuleVisitor for Lister {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.slots.push(Slot {
            name: self.path.join(),
            shape: param.shape().to_vec(),
            trained: param.is_require_grad(),
        });
        if let Some(values) = &mut self.values {
            values.push(host(param.val()));
        }
    }
}

/// The values of a tensor on the host.
pub(crate) fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("every tensor of this crate is made of f32 data")
}

/// Every tensor's name and shape, in the module's order.
pub(crate) fn slots(module: &impl Module) -> Vec<Slot> {
    let mut lister = Lister { path: Path::default(), slots: Vec::new(), values: None };
    module.visit(&mut lister);
    lister.slots
}

/// Every tensor of the module, trained or not, in the module's order.
pub fn export(module: &impl Module) -> Vec<NamedTensor> {
    let mut lister = Lister { path: Path::default(), slots: Vec::new(), values: Some(Vec::new()) };
    module.visit(&mut lister);
    lister
        .slots
        .into_iter()
        .zip(lister.values.into_iter().flatten())
        .map(|(slot, values)| NamedTensor { name: slot.name, shape: slot.shape, values })
        .collect()
}

/// The same module with the given values. Every tensor must be there once, with its shape, and no other.
pub fn import<M: Module>(module: M, tensors: Vec<NamedTensor>) -> Result<M, Error> {
    let values = arrange(&slots(&module), tensors)?;
    Ok(module.map(&mut Filler { values: values.into_iter() }))
}

/// The values of `tensors` in the order of `slots`, after checking names, shapes and lengths.
pub(crate) fn arrange(slots: &[Slot], tensors: Vec<NamedTensor>) -> Result<Vec<Vec<f32>>, Error> {
    let mut given = BTreeMap::new();
    for tensor in tensors {
        if let Some(twice) = given.insert(tensor.name.clone(), tensor) {
            return Err(Error::DuplicateTensor { name: twice.name });
        }
    }
    let mut values = Vec::with_capacity(slots.len());
    for slot in slots {
        let Some(tensor) = given.remove(&slot.name) else {
            return Err(Error::MissingTensor { name: slot.name.clone() });
        };
        if tensor.shape != slot.shape {
            return Err(Error::TensorShape {
                name: tensor.name,
                expected: slot.shape.clone(),
                found: tensor.shape,
            });
        }
        if tensor.values.len() != slot.shape.iter().product::<usize>() {
            return Err(Error::TensorLength {
                name: tensor.name,
                shape: tensor.shape,
                found: tensor.values.len(),
            });
        }
        values.push(tensor.values);
    }
    if given.is_empty() {
        Ok(values)
    } else {
        Err(Error::UnexpectedTensors { names: given.into_keys().collect() })
    }
}

struct Filler {
    values: std::vec::IntoIter<Vec<f32>>,
}

impl ModuleMapper for Filler {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(values) = self.values.next() else {
            return param;
        };
        param.map(|old| {
            let data = TensorData::new(values, old.shape());
            let new = Tensor::from_data(data, &old.device());
            new.set_require_grad(old.is_require_grad())
        })
    }
}
