//! Backbones in Burn, and the border where their features leave for a head on the host.
//!
//! A [`Network`] is a backbone ([`Architecture`]: Conv4, Conv4S, Conv6, their unpadded variants, ResNet12) with its Adam optimiser on a device
//! chosen at run time ([`DeviceChoice`]). A head is any function from feature vectors to a loss and its gradient in
//! f64; this crate knows no Gaussian process. A training step collects the gradients of one or several episodes in a
//! [`Step`] and is then applied or dropped as a whole:
//!
//! ```
//! use siskin_nn::{Architecture, DeviceChoice, Error, Features, HeadLoss, Images, Network, Step};
//!
//! let mut network = Network::new(Architecture::Conv4S, 0, DeviceChoice::Cpu)?;
//! let pixels: Vec<f32> = (0..4 * 28 * 28).map(|i| (i % 29) as f32 / 29.0).collect();
//! let images = Images::new(&pixels, [4, 1, 28, 28])?;
//!
//! // The head: loss = |features|^2 / 2, so dloss/dfeatures = features.
//! let head = |f: &Features| {
//!     let loss = f.values.iter().map(|v| v * v).sum::<f64>() / 2.0;
//!     Ok::<_, Error>(HeadLoss { loss, dfeatures: f.values.clone(), dhyper: vec![], accuracy: None })
//! };
//! let mut step = Step::default();
//! let episode = network.episode(images, &mut step, head)?;
//! if step.non_finite() == 0 {
//!     network.apply(step, 1e-3);
//! }
//! assert!(episode.loss > 0.0);
//!
//! // Evaluation: running statistics, no graph.
//! let features = network.features(images)?;
//! assert_eq!((features.rows, features.dim), (4, 64));
//! # Ok::<(), Error>(())
//! ```
//!
//! [`Network::state`] is everything a checkpoint needs to go on with the same bits, [`Network::save_weights`] a file
//! of weights for others. Same seed, same bytes: first values come from a ChaCha8 stream of this project, not from
//! Burn's generator.
//!
//! Trained layers after the backbone implement [`Head`]: [`Network::with_head`] trains them with the backbone, by one
//! optimiser and in one checkpoint, and [`Network::record`] differentiates any loss of both. [`Gradients`], [`Adam`],
//! [`export`] and [`import`] take any Burn `Module`.

mod adam;
mod backbone;
mod batch_norm;
mod border;
mod conv_net;
mod device;
mod dual;
mod error;
mod frozen;
mod functional;
mod fused;
mod gradients;
mod head;
mod images;
mod init;
mod linear;
mod network;
mod part;
mod resnet;
mod state;
mod weights;

pub use adam::{Adam, Pace, is_moment};
pub use backbone::{Architecture, Backbone, Layers};
pub use batch_norm::{BatchNorm, BatchStatistics, Pass};
pub use border::{EpisodeLoss, Features, HeadLoss, to_host};
pub use conv_net::{Conv, ConvBlock, ConvNet};
pub use device::{DeviceChoice, Hardware};
pub use error::Error;
pub use frozen::Frozen;
pub use functional::LossGradient;
pub use fused::{Engine, convolution};
pub use gradients::Gradients;
pub use head::{Body, Head, NoHead};
pub use images::Images;
pub use init::Init;
pub use linear::Linear;
pub use network::{Network, NetworkState, Step};
pub use part::{SentPart, StepPart};
pub use resnet::{Filters, ResNet, ResidualBlock, Unit};
pub use siskin_cpu::Precision;
pub use siskin_random::stream;
pub use state::{NamedTensor, export, import};
