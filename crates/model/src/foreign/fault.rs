//! What can be wrong with an ONNX file as a backbone, as facts.

/// Why an ONNX file cannot be a backbone.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignFault {
    /// The file cannot be read as a network, or has a part that rten does not know.
    #[error("it is no ONNX network that can be run ({why})")]
    Load {
        /// What rten said.
        why: String,
    },
    /// The library of ONNX Runtime cannot be loaded.
    #[error(
        "ONNX Runtime, which ORT_DYLIB_PATH names, cannot be used ({why}). It must be libonnxruntime of version 1.23 or later; without the variable \
         the network is run by rten"
    )]
    Runtime {
        /// What was said.
        why: String,
    },
    /// How long it takes cannot be known.
    #[error(
        "it has a loop (an operator `Loop` or `Scan`), so nobody knows how long an image takes; networks for images need none"
    )]
    Loops,
    /// It resizes in a way that is not known.
    #[error(
        "it has a cubic `Resize` that {why}, which is not known here; ONNX Runtime may know it: name its library by ORT_DYLIB_PATH"
    )]
    Cubic {
        /// What is not known of it.
        why: String,
    },
    /// No input takes an image.
    #[error(
        "none of its inputs takes colour images [N, 3, H, W] or [N, H, W, 3] of 32-bit floats; it has {inputs}"
    )]
    NoImageInput {
        /// The inputs with their shapes.
        inputs: String,
    },
    /// It wants more than an image.
    #[error("it wants more than an image: {inputs}. Export the part for images alone")]
    MoreInputs {
        /// The inputs with their shapes.
        inputs: String,
    },
    /// It takes batches of another size than one.
    #[error("it takes exactly {images} images at a time; export it with a free batch size, or with 1")]
    Batch {
        /// Images of a batch.
        images: usize,
    },
    /// It takes images of one size, and another was asked for.
    #[error("it takes images of {height} x {width} pixels, not of {wanted} x {wanted}")]
    Size {
        /// Rows it takes.
        height: usize,
        /// Columns it takes.
        width: usize,
        /// The side that was asked for.
        wanted: u32,
    },
    /// No output of this name.
    #[error("it has no output `{wanted}`; it has {outputs}")]
    NoOutput {
        /// The name.
        wanted: String,
        /// The outputs with their shapes.
        outputs: String,
    },
    /// The output cannot be made one vector per image.
    #[error(
        "its output `{output}` has the shape {shape:?} for one image; features are [1, D], [1, tokens, D] or [1, D, H, W] \
         with D from 2 to {most}"
    )]
    OutputShape {
        /// Name of the output.
        output: String,
        /// Its shape for one image.
        shape: Vec<usize>,
        /// Most features.
        most: usize,
    },
    /// The output holds no 32-bit floats.
    #[error("its output `{output}` does not hold 32-bit floats")]
    OutputType {
        /// Name of the output.
        output: String,
    },
    /// Running it failed.
    #[error("it cannot be run on an image ({why})")]
    Run {
        /// What rten said.
        why: String,
    },
    /// A feature is infinite or no number.
    #[error("its features of an image are not finite: is the preprocessing the one it was trained with?")]
    NotFinite,
    /// Two very different images have the same features.
    #[error("it gives the same features for two very different images: wrong output, or no image network")]
    Constant,
    /// A setting makes no sense.
    #[error("{what} is {value}; it must be {must}")]
    Setting {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
    /// Its file cannot be read.
    #[error("its file cannot be read ({why}); add it again")]
    Unread {
        /// What the system said.
        why: String,
    },
    /// The file is another one than was added.
    #[error("its file is damaged or was changed since it was added; add it again")]
    OtherFile,
}
