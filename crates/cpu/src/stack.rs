//! A row of blocks, such as Conv4: images in, flat features out, nothing converted in between.

use crate::batch::Batch;
use crate::bf16::Precision;
use crate::block::{Block, BlockGrads, BlockParams, BlockPass, BlockSaved, BlockSpec, RunningStats};
use crate::buffer::Workspace;
use crate::error::{Error, check};
use crate::frame::Activations;
use crate::simd::Isa;

/// Blocks run one after the other.
#[derive(Clone, Debug)]
pub struct Stack {
    blocks: Vec<Block>,
}

/// What the backward pass of a [`Stack`] needs besides its parameters.
#[derive(Debug)]
pub struct StackSaved {
    inputs: Vec<Activations>,
    blocks: Vec<BlockSaved>,
}

/// Where the backward pass of a [`Stack`] writes its gradients.
#[derive(Debug)]
pub struct StackGrads<'a, 'b> {
    /// Of the parameters of each block.
    pub blocks: &'a mut [BlockGrads<'b>],
    /// Of the images, if asked for.
    pub images: Option<&'a mut [f32]>,
}

impl Stack {
    /// A stack run with the widest instructions of this CPU.
    ///
    /// # Errors
    /// A block that cannot be built, or whose channels do not fit the one before it.
    pub fn new(specs: &[BlockSpec]) -> Result<Self, Error> {
        Self::with_isa(specs, Isa::detect())
    }

    /// A stack run with the given instructions.
    ///
    /// # Errors
    /// As [`Stack::new`].
    pub fn with_isa(specs: &[BlockSpec], isa: Isa) -> Result<Self, Error> {
        for (i, pair) in specs.windows(2).enumerate() {
            if pair[0].c_out != pair[1].c_in {
                let (expected, found) = (pair[0].c_out, pair[1].c_in);
                return Err(Error::Channels { block: i + 1, expected, found });
            }
        }
        if specs.is_empty() {
            return Err(Error::Unsupported { what: "the number of blocks", value: 0, allowed: "at least 1" });
        }
        let blocks = specs.iter().map(|&spec| Block::with_isa(spec, isa)).collect::<Result<_, _>>()?;
        Ok(Self { blocks })
    }

    /// The same stack with its convolutions in this precision.
    ///
    /// # Errors
    /// Instructions this CPU does not have.
    pub fn at(self, precision: Precision) -> Result<Self, Error> {
        let blocks = self.blocks.into_iter().map(|block| block.at(precision)).collect::<Result<_, _>>()?;
        Ok(Self { blocks })
    }

    /// Its blocks, the first at the images.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Channels, height and width of the last block's output for images of h x w; features are their product.
    ///
    /// # Errors
    /// Images of which nothing would remain.
    pub fn output_shape(&self, h: usize, w: usize) -> Result<[usize; 3], Error> {
        let (mut h, mut w, mut channels) = (h, w, 0);
        for (i, block) in self.blocks.iter().enumerate() {
            let too_small = Error::TooSmall { block: i, h, w };
            (h, w) = block.output_size(h, w).ok_or(too_small)?;
            channels = block.spec().c_out;
        }
        Ok([channels, h, w])
    }

    fn check(&self, name: &'static str, found: usize) -> Result<(), Error> {
        let expected = self.blocks.len();
        if found == expected { Ok(()) } else { Err(Error::Blocks { name, expected, found }) }
    }

    fn start(
        &self,
        ws: &Workspace,
        Batch { values, n, h, w }: Batch<'_>,
        features: usize,
    ) -> Result<Activations, Error> {
        let size = self.output_shape(h, w)?.iter().product::<usize>();
        check("features", "[n, c, h, w]", features, n * size)?;
        Activations::from_nchw(ws, values, [n, self.blocks[0].spec().c_in, h, w])
    }

    /// Training: images `[n, c, h, w]` to features `[n, c·h·w]`, each block normalised by the statistics of this batch.
    ///
    /// # Errors
    /// Shapes that do not fit, images too small, or a single value per channel.
    pub fn forward_train(
        &self,
        workspace: &Workspace,
        params: &[BlockParams],
        images: Batch<'_>,
        features: &mut [f32],
    ) -> Result<StackSaved, Error> {
        self.check("params", params.len())?;
        let mut x = self.start(workspace, images, features.len())?;
        let mut saved = StackSaved { inputs: Vec::new(), blocks: Vec::new() };
        for (i, (block, params)) in self.blocks.iter().zip(params).enumerate() {
            let (y, kept) = block.forward_train(workspace, params, &x).map_err(|e| e.at(i))?;
            saved.blocks.push(kept);
            saved.inputs.push(std::mem::replace(&mut x, y));
        }
        x.to_nchw(features)?;
        Ok(saved)
    }

    /// Evaluation: the same with running statistics folded into the convolutions.
    ///
    /// # Errors
    /// Shapes that do not fit, or images too small.
    pub fn forward_eval(
        &self,
        workspace: &Workspace,
        params: &[BlockParams],
        running: &[RunningStats],
        images: Batch<'_>,
        features: &mut [f32],
    ) -> Result<(), Error> {
        self.check("params", params.len())?;
        self.check("running", running.len())?;
        let mut x = self.start(workspace, images, features.len())?;
        for (i, ((block, params), running)) in self.blocks.iter().zip(params).zip(running).enumerate() {
            x = block.forward_eval(workspace, params, running, &x).map_err(|e| e.at(i))?;
        }
        x.to_nchw(features)
    }

    /// Gradients of all parameters and, if asked for, of the images, from that of the features.
    ///
    /// # Errors
    /// Shapes that do not fit those of the forward pass.
    pub fn backward(
        &self,
        workspace: &Workspace,
        params: &[BlockParams],
        saved: &StackSaved,
        dfeatures: &[f32],
        StackGrads { blocks: grads, images: dimages }: StackGrads<'_, '_>,
    ) -> Result<(), Error> {
        for (name, found) in [("params", params.len()), ("saved", saved.blocks.len()), ("grads", grads.len())]
        {
            self.check(name, found)?;
        }
        let last = self.blocks.len() - 1;
        let mut dy = saved.blocks[last].gradient(workspace, dfeatures)?;
        for i in (0..=last).rev() {
            let (x, kept) = (&saved.inputs[i], &saved.blocks[i]);
            let want_dx = i > 0 || dimages.is_some();
            let pass = BlockPass { params: params[i], x, saved: kept, dy: &dy };
            let dx = self.blocks[i].backward(workspace, pass, &mut grads[i], want_dx);
            match dx.map_err(|e| e.at(i))? {
                Some(dx) => dy = dx,
                None => return Ok(()),
            }
        }
        dimages.map_or(Ok(()), |out| dy.to_nchw(out))
    }
}

impl StackSaved {
    /// What each block kept, the first at the images: its batch statistics update the running ones.
    pub fn blocks(&self) -> &[BlockSaved] {
        &self.blocks
    }
}
