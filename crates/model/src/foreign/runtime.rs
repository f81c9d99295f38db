//! ONNX Runtime in place of rten, where somebody names its library: faster on convolutions, and it knows more operators. Nothing of it is
//! linked; the library is loaded at the first use. One thread a session, so that features do not depend on the number of threads.

use super::fault::ForeignFault;
use super::network::{Port, one_line};
use ort::environment::Environment;
use ort::session::Session;
use ort::value::{Outlet, TensorElementType, TensorRef, ValueType};
use rten_tensor::{AsView as _, Layout as _, NdTensor, Tensor};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The environment variable that names the library, as all of ONNX Runtime's Rust programs have it.
pub(super) const LIBRARY: &str = "ORT_DYLIB_PATH";

/// Whether a library is named.
pub(super) fn wanted() -> bool {
    std::env::var_os(LIBRARY).is_some_and(|path| !path.is_empty())
}

/// The process has one environment; a library that cannot be loaded stays so.
fn environment() -> Result<&'static Environment, ForeignFault> {
    static LOADED: OnceLock<Result<Environment, String>> = OnceLock::new();
    let load = || {
        let path = std::env::var_os(LIBRARY).unwrap_or_default();
        let environment = ort::init_from(path).map_err(|e| e.to_string())?;
        environment.with_name("siskin").with_telemetry(false).build().map_err(|e| e.to_string())
    };
    let why = |e: &String| ForeignFault::Runtime { why: one_line(e) };
    LOADED.get_or_init(load).as_ref().map_err(why)
}

/// A network with sessions of ONNX Runtime, as many as were at work at the same time.
pub(super) struct Runtime {
    bytes: Vec<u8>,
    idle: Mutex<Vec<Session>>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

impl Runtime {
    pub(super) fn load(bytes: Vec<u8>) -> Result<Runtime, ForeignFault> {
        let session = session(&bytes)?;
        let (inputs, outputs) =
            (session.inputs().iter().map(port).collect(), session.outputs().iter().map(port).collect());
        Ok(Runtime { bytes, idle: Mutex::new(vec![session]), inputs, outputs })
    }

    pub(super) fn inputs(&self) -> Vec<Port> {
        self.inputs.clone()
    }

    pub(super) fn outputs(&self) -> Vec<Port> {
        self.outputs.clone()
    }

    /// The output of one input.
    pub(super) fn run(
        &self,
        (input, output): (&str, &str),
        x: &NdTensor<f32, 4>,
    ) -> Result<Tensor<f32>, ForeignFault> {
        let failed = |e: ort::Error| ForeignFault::Run { why: one_line(&e.to_string()) };
        // A poisoned lock means that a thread panicked beside it; the sessions are whole.
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut session = taken.map_or_else(|| session(&self.bytes), Ok)?;
        let values = x.to_vec();
        let found = {
            let x = TensorRef::from_array_view((x.shape(), values.as_slice())).map_err(failed)?;
            let outputs = session.run(ort::inputs![input => x]).map_err(failed)?;
            let wrong = || ForeignFault::OutputType { output: output.into() };
            let value = outputs.get(output).ok_or_else(wrong)?;
            let (shape, data) = value.try_extract_tensor::<f32>().map_err(|_| wrong())?;
            let shape: Vec<usize> = shape.iter().map(|&side| side.max(0) as usize).collect();
            Tensor::from_data(shape.as_slice(), data.to_vec())
        };
        idle().push(session);
        Ok(found)
    }
}

fn session(bytes: &[u8]) -> Result<Session, ForeignFault> {
    let made = || -> Result<Session, String> {
        let environment = environment().map_err(|e| e.to_string())?;
        let builder = Session::builder(environment).map_err(|e| e.to_string())?;
        let builder = builder.with_intra_threads(1).map_err(|e| e.to_string())?;
        let mut builder = builder.with_inter_threads(1).map_err(|e| e.to_string())?;
        builder.commit_from_memory(bytes).map_err(|e| e.to_string())
    };
    environment()?;
    made().map_err(|why| ForeignFault::Load { why: one_line(&why) })
}

fn port(outlet: &Outlet) -> Port {
    let (shape, floats) = match outlet.dtype() {
        ValueType::Tensor { ty, shape, .. } => {
            let sides = shape.iter().map(|&side| usize::try_from(side).ok()).collect();
            (Some(sides), *ty == TensorElementType::Float32)
        }
        _ => (None, false),
    };
    Port { name: outlet.name().to_owned(), shape, floats }
}
