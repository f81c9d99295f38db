//! What can go wrong in this crate, with the facts.

use std::path::PathBuf;

/// Failures of backbones, devices and weight files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A device name that is none of ours.
    #[error("unknown device `{name}`: choose cpu, cuda, wgpu or metal")]
    UnknownDevice {
        /// The name as given.
        name: String,
    },
    /// A device whose cargo feature is off in this build.
    #[error(
        "device `{device}` is not part of this build: rebuild with `cargo build --release --features {device}`"
    )]
    DeviceNotCompiled {
        /// The device, which is also the name of its cargo feature.
        device: &'static str,
    },
    /// A device that is part of this build, but not of this machine.
    #[error(
        "device `{device}` cannot be used here: {why}. Look at the driver, or choose --device cpu; `siskin doctor` lists what is \
         there"
    )]
    DeviceRefused {
        /// The device.
        device: &'static str,
        /// What the driver said.
        why: String,
    },
    /// Mixed precision where only single precision is computed.
    #[error(
        "precision {precision} is computed by the fused blocks of the CPU only, not on `{device}` without them: \
         choose precision f32, or device cpu with backbone.fused = true"
    )]
    PrecisionElsewhere {
        /// The device.
        device: &'static str,
        /// The precision asked for.
        precision: &'static str,
    },
    /// A network that can neither change its precision nor leave the fused blocks.
    #[error(
        "this network computes by the fused blocks in f32 only: choose precision f32 and backbone.fused = true"
    )]
    FusedSingleOnly,
    /// Second derivatives of a frozen network.
    #[error(
        "vectors of a frozen network have no second derivatives: train by another method, e.g. method = \"cdkt\""
    )]
    NoSecondOrder,
    /// A backbone name that is none of ours.
    #[error("unknown backbone `{name}`: choose conv4, conv4s, conv6, conv4np, conv4snp or resnet12")]
    UnknownBackbone {
        /// The name as given.
        name: String,
    },
    /// An image so small that pooling leaves nothing.
    #[error(
        "images of {height} x {width} pixels are too small for {backbone}: each side must be at least {least}"
    )]
    ImageTooSmall {
        /// The backbone's name.
        backbone: &'static str,
        /// Image height.
        height: usize,
        /// Image width.
        width: usize,
        /// Smallest side that gives a feature.
        least: usize,
    },
    /// A batch that the backbone cannot read.
    #[error("{backbone} reads images of {expected}, but the batch has shape {found:?} [N, C, H, W]")]
    BatchShape {
        /// The backbone's name.
        backbone: &'static str,
        /// What it reads, in words.
        expected: String,
        /// The shape given.
        found: [usize; 4],
    },
    /// The fused CPU path refuses the batch, such as one with a single value for each channel.
    #[error(transparent)]
    Fused(#[from] siskin_cpu::Error),
    /// A pixel buffer that does not fill its shape.
    #[error("a batch of shape {shape:?} needs {expected} pixels, but {found} were given")]
    PixelCount {
        /// The shape `[N, C, H, W]` claimed.
        shape: [usize; 4],
        /// Its number of elements.
        expected: usize,
        /// The length of the buffer.
        found: usize,
    },
    /// A head returned a gradient of another shape than its features.
    #[error(
        "the head returned {found} gradient values for {rows} x {dim} features; it must return one for each"
    )]
    FeatureGradient {
        /// Number of feature rows.
        rows: usize,
        /// Feature dimension.
        dim: usize,
        /// Number of values returned.
        found: usize,
    },
    /// A tensor the network needs is not in the given state or file.
    #[error("tensor `{name}` is missing")]
    MissingTensor {
        /// The name looked for.
        name: String,
    },
    /// Tensors that the network does not know.
    #[error("unexpected tensors: {}", names.join(", "))]
    UnexpectedTensors {
        /// Their names.
        names: Vec<String>,
    },
    /// The same tensor twice.
    #[error("tensor `{name}` is given twice")]
    DuplicateTensor {
        /// The name given twice.
        name: String,
    },
    /// A tensor of the wrong shape.
    #[error("tensor `{name}` has shape {found:?}, but the network needs {expected:?}")]
    TensorShape {
        /// The tensor's name.
        name: String,
        /// Shape the network has.
        expected: Vec<usize>,
        /// Shape found.
        found: Vec<usize>,
    },
    /// A tensor whose values do not fill its shape.
    #[error("tensor `{name}` of shape {shape:?} has {found} values")]
    TensorLength {
        /// The tensor's name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Number of values found.
        found: usize,
    },
    /// A tensor of a number type that cannot be read.
    #[error("tensor `{name}` holds {dtype} numbers; weights must be 32-bit floats (F32)")]
    TensorType {
        /// The tensor's name.
        name: String,
        /// The type found.
        dtype: String,
    },
    /// A weight file that cannot be opened, read or written.
    #[error("cannot access the weight file {}: {source}", path.display())]
    WeightsIo {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A weight file that is no safetensors file.
    #[error("{} is not a readable safetensors file: {reason}", path.display())]
    WeightsFormat {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A vector of parameters of the wrong length.
    #[error("a vector of {found} numbers was given for a network of {expected} trained parameters")]
    ParameterCount {
        /// Trained parameters of the network.
        expected: usize,
        /// Numbers given.
        found: usize,
    },
    /// A weight file whose tensors do not fit; the reason names the tensor.
    #[error("the weights in {} do not fit this {backbone}: {reason}", path.display())]
    WeightsMismatch {
        /// The file.
        path: PathBuf,
        /// The backbone's name.
        backbone: &'static str,
        /// Which tensor, and why.
        reason: Box<Error>,
    },
}
