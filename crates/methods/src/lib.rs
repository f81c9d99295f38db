//! Few-shot methods behind one small trait, [`Method`].
//!
//! A method is one file in the folder of its kind (`metric`, `gp`, `gradient`, `transfer`) with its [`Settings`], a `pub mod` line beside it,
//! and one line in `registry.rs`. docs/add-a-method.md shows the way.

mod error;
pub mod gp;
pub mod gradient;
mod method;
pub mod metric;
mod one_network;
pub mod reference;
mod registry;
mod settings;
mod shared;
pub mod transfer;

pub use error::{Error, Result};
pub use gp::deep_kernel::{matrix, row_major};
pub use method::{GaussianProcess, Method, TrainsOn};
pub use one_network::OneNetwork;
pub use registry::MethodName;
pub use settings::{MethodSettings, Settings};
pub use shared::episode::{EpisodeRows, LatentGaussians, Prediction, Purpose, TaskRows};
pub use shared::message;
pub use shared::notice::Notice;
pub use shared::rows::{Pixels, Rows, select};
pub use shared::scalar_fit::{FeatureEpisode, ScalarFit};
pub use shared::scores::{Scores, softmax_cross_entropy};
pub use shared::setup::Setup;
pub use shared::share::{Place, Share};
pub use shared::state::{Role, State, Tensor, Values};
pub use shared::step::{Rates, StepReport};
pub use siskin_nn::{Features, Images, Pace};
