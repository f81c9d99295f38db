//! Other people's pretrained networks as backbones: any ONNX file that makes numbers of an image, run by rten, or by ONNX
//! Runtime.
//!
//! | question | file |
//! | --- | --- |
//! | What becomes of an image before such a network sees it? | `preprocess.rs` |
//! | What must be known of it, and what is asked for? | `spec.rs` |
//! | How is the file read and run? | `network.rs`; by ONNX Runtime: `runtime.rs` |
//! | Is the file what it should be? | `inspect.rs`, `operators.rs`, `protobuf.rs`; are its outputs features? `scores.rs` |
//! | What does rten not know? | `completed.rs`, `cubic.rs`, `taken_out.rs` |
//! | Where are such models kept? | `registry.rs` |
//! | What can be wrong with it? | `fault.rs` |

mod completed;
mod cubic;
mod fault;
mod inspect;
mod network;
mod operators;
mod preprocess;
mod protobuf;
mod registry;
#[cfg(feature = "ort")]
mod runtime;
mod scores;
mod spec;
mod taken_out;

pub use fault::ForeignFault;
pub use inspect::{ClassScores, Inspected, inspect};
pub use network::{ForeignNetwork, Graph, MOST_BYTES, Port, engine, features_key};
pub use preprocess::{Preprocessing, Preset, Resize};
pub use registry::Registry;
pub use spec::{ForeignSpec, Layout, NetworkRef, Pool, Wishes};

/// Small ONNX files for tests, here and in the crates above.
#[doc(hidden)]
pub mod tiny;

/// Hash of a file, as [`ForeignSpec::file`] has it.
pub fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests;
