//! What can be wrong with a call.

/// A call this crate refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A slice does not have the length its shape asks for.
    #[error("{name} has {found} values, but its shape {shape} asks for {expected}")]
    Length {
        /// The argument.
        name: &'static str,
        /// Its shape in words, e.g. `[n, c_in, h, w]`.
        shape: &'static str,
        /// Values the shape asks for.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The images are too small (or empty) for the layer.
    #[error("images of {h}x{w} are too small for block {block}: nothing would remain of them")]
    TooSmall {
        /// Position of the layer in its stack, from 0.
        block: usize,
        /// Image height at its input.
        h: usize,
        /// Image width at its input.
        w: usize,
    },
    /// Training statistics need more than one value for each channel.
    #[error("block {block}: batch statistics need at least 2 values per channel, but there is only one")]
    TooFewValues {
        /// Position of the layer in its stack, from 0.
        block: usize,
    },
    /// A layer with a geometry that is not built.
    #[error("{what} is {value}, but must be {allowed}")]
    Unsupported {
        /// Which property.
        what: &'static str,
        /// Its value.
        value: usize,
        /// What it may be.
        allowed: &'static str,
    },
    /// A backward pass was handed what does not belong to its forward pass.
    #[error("{name} handed to the backward pass does not have the shape of the forward pass")]
    OtherPass {
        /// What was handed.
        name: &'static str,
    },
    /// The number of parameter sets, gradients or layers differs.
    #[error("{name} has {found} entries for {expected} blocks")]
    Blocks {
        /// The argument.
        name: &'static str,
        /// Blocks of the stack.
        expected: usize,
        /// Entries given.
        found: usize,
    },
    /// The CPU has no instructions for bf16.
    #[error(
        "precision bf16 needs a CPU with AMX tiles for bf16 (and Linux 5.16 or later) or AVX-512 BF16, and this one \
         has {instructions} only: choose f32, or bf16-emulated to see what bf16 does to the results"
    )]
    NoBf16 {
        /// The widest instructions it has.
        instructions: &'static str,
    },
    /// A precision that is none of ours.
    #[error("unknown precision `{name}`: choose f32, bf16 or bf16-emulated")]
    UnknownPrecision {
        /// The name as given.
        name: String,
    },
    /// Consecutive blocks whose channels do not fit.
    #[error("block {block} takes {found} channels, but its input has {expected}")]
    Channels {
        /// Position of the layer in its stack, from 0.
        block: usize,
        /// Channels of its input.
        expected: usize,
        /// Channels its specification names.
        found: usize,
    },
}

impl Error {
    /// The same error, said of the block at another position.
    pub(crate) fn at(mut self, position: usize) -> Self {
        if let Self::TooSmall { block, .. } | Self::TooFewValues { block } | Self::Channels { block, .. } =
            &mut self
        {
            *block = position;
        }
        self
    }
}

/// Checks the length of an argument.
pub(crate) fn check(
    name: &'static str,
    shape: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { name, shape, expected, found }) }
}
