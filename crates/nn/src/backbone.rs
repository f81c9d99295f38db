//! The closed set of backbones: which one, for which images, with how many features.

use std::fmt;
use std::str::FromStr;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use siskin_cpu::{BlockSpec, Precision};

use crate::batch_norm::{BatchNorm, Pass};
use crate::conv_net::ConvNet;
use crate::dual::{Direction, Dual};
use crate::frozen::Frozen;
use crate::init::Init;
use crate::resnet::ResNet;
use crate::{DeviceChoice, Error, Images};

/// Channels of the first block in the published networks.
const WIDTH: usize = 64;

/// A backbone's architecture, by the name the field gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// Four blocks of 64 channels on colour images.
    Conv4,
    /// Conv4 on one channel: it reads the first channel of a colour image.
    Conv4S,
    /// Conv4 and two more blocks without pooling.
    Conv6,
    /// Conv4 that keeps maps: blocks 1 and 2 without padding, blocks 3 and 4 without pooling.
    Conv4NP,
    /// Conv4NP on one channel.
    Conv4SNP,
    /// Twelve layers in four residual blocks of 64, 160, 320 and 640 channels.
    ResNet12,
    /// Vectors that another network has made of images, `[N, dim, 1, 1]`: as they are, or through a linear layer.
    Frozen {
        /// Length of a vector.
        dim: usize,
        /// Rank of the layer; 0 for none.
        rank: usize,
    },
}

impl Architecture {
    /// Every architecture that a config can name; the frozen one follows from its network.
    pub const ALL: [Self; 6] =
        [Self::Conv4, Self::Conv4S, Self::Conv6, Self::Conv4NP, Self::Conv4SNP, Self::ResNet12];

    /// The name used in configs and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conv4 => "conv4",
            Self::Conv4S => "conv4s",
            Self::Conv6 => "conv6",
            Self::Conv4NP => "conv4np",
            Self::Conv4SNP => "conv4snp",
            Self::ResNet12 => "resnet12",
            Self::Frozen { .. } => "frozen",
        }
    }

    /// Channels of the images the first layer reads.
    pub fn channels(self) -> usize {
        match self {
            Self::Conv4S | Self::Conv4SNP => 1,
            Self::Conv4 | Self::Conv6 | Self::Conv4NP | Self::ResNet12 => 3,
            Self::Frozen { dim, .. } => dim,
        }
    }

    /// Number of features of an image of `height` x `width` pixels: 1600 for Conv4 at 84, 64 for Conv4S at 28.
    pub fn dimension(self, height: usize, width: usize) -> Result<usize, Error> {
        Ok(self.map(height, width)?.iter().product())
    }

    /// `[channels, height, width]` of the map that is flattened to features, for an image of `height` x `width` pixels.
    pub fn map(self, height: usize, width: usize) -> Result<[usize; 3], Error> {
        // Four 2x2 poolings, each rounding down; or two, each after a convolution that takes a pixel from every side.
        let least = match self {
            Self::Frozen { .. } => 1,
            Self::Conv4NP | Self::Conv4SNP => 10,
            Self::Conv4 | Self::Conv4S | Self::Conv6 | Self::ResNet12 => 16,
        };
        if height < least || width < least {
            return Err(Error::ImageTooSmall { backbone: self.name(), height, width, least });
        }
        let unpadded = |side: usize| ((side - 2) / 2 - 2) / 2;
        Ok(match self {
            Self::Conv4 | Self::Conv4S | Self::Conv6 => [WIDTH, height / 16, width / 16],
            Self::Conv4NP | Self::Conv4SNP => [WIDTH, unpadded(height), unpadded(width)],
            Self::ResNet12 => [10 * WIDTH, 1, 1],
            Self::Frozen { dim, .. } => [dim, 1, 1],
        })
    }

    /// The blocks of the convolutional networks with `width` channels; none for the others.
    fn blocks(self, width: usize) -> Vec<BlockSpec> {
        let shapes: &[(usize, bool)] = match self {
            Self::Conv4 | Self::Conv4S => &[(1, true); 4],
            Self::Conv6 => &[(1, true), (1, true), (1, true), (1, true), (1, false), (1, false)],
            Self::Conv4NP | Self::Conv4SNP => &[(0, true), (0, true), (1, false), (1, false)],
            Self::ResNet12 | Self::Frozen { .. } => &[],
        };
        let block = |(i, &(padding, pool)): (usize, &(usize, bool))| BlockSpec {
            c_in: if i == 0 { self.channels() } else { width },
            c_out: width,
            padding,
            pool,
        };
        shapes.iter().enumerate().map(block).collect()
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Architecture {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|a| a.name() == name)
            .ok_or_else(|| Error::UnknownBackbone { name: name.to_owned() })
    }
}

/// The layers of a backbone.
#[derive(Module, Debug)]
pub enum Layers {
    /// Conv4, Conv4S, Conv6 and the unpadded ones.
    ConvNet(ConvNet),
    /// ResNet12.
    ResNet(ResNet),
    /// Vectors of another network.
    Frozen(Frozen),
}

/// A backbone: images in, feature vectors out.
#[derive(Module, Debug)]
pub struct Backbone {
    layers: Layers,
    #[module(skip)]
    architecture: Architecture,
    /// Input channels and number of blocks where it is no architecture but a row of blocks.
    #[module(skip)]
    row: Option<(usize, usize)>,
}

impl Backbone {
    /// First values from stream `(seed, "init")`; 64 channels in each block.
    pub fn new(architecture: Architecture, seed: u64, device: &Device) -> Self {
        Self::with_width(architecture, WIDTH, seed, device)
    }

    /// The same on the hardware and in the precision of `choice`, with gradients.
    pub fn on(architecture: Architecture, seed: u64, choice: DeviceChoice) -> Result<Self, Error> {
        let of = |hardware: DeviceChoice| -> Result<Self, Error> {
            Ok(Self::new(architecture, seed, &hardware.open()?.autodiff()))
        };
        match choice {
            DeviceChoice::CpuAt(precision) => of(DeviceChoice::Cpu)?.at(precision),
            DeviceChoice::CpuUnfused => Ok(of(DeviceChoice::Cpu)?.unfused()),
            hardware => of(hardware),
        }
    }

    /// The same with `width` channels in the first block, for small problems and tests.
    pub fn with_width(architecture: Architecture, width: usize, seed: u64, device: &Device) -> Self {
        let mut init = Init::new(seed, device);
        let layers = match architecture {
            Architecture::ResNet12 => Layers::ResNet(ResNet::new(architecture.channels(), width, &mut init)),
            Architecture::Frozen { dim, rank } => Layers::Frozen(Frozen::new(dim, rank, &mut init, device)),
            _ => Layers::ConvNet(ConvNet::new(&architecture.blocks(width), &mut init)),
        };
        Self { layers, architecture, row: None }
    }

    /// `blocks` padded and pooled blocks of `width` channels for images of `channels` channels: a network small enough to
    /// compare with another program's, by plain Burn operations. [`Backbone::architecture`] has no meaning for it.
    pub fn row_of_blocks(channels: usize, width: usize, blocks: usize, device: &Device) -> Self {
        let block = |i: usize| BlockSpec {
            c_in: if i == 0 { channels } else { width },
            c_out: width,
            padding: 1,
            pool: true,
        };
        let specs: Vec<BlockSpec> = (0..blocks.max(1)).map(block).collect();
        let net = ConvNet::new(&specs, &mut Init::new(0, device)).unfused();
        Self {
            layers: Layers::ConvNet(net),
            architecture: Architecture::Conv4,
            row: Some((channels, specs.len())),
        }
    }

    /// Channels of the images it reads.
    pub fn channels(&self) -> usize {
        self.row.map_or(self.architecture.channels(), |(channels, _)| channels)
    }

    /// The same backbone as a plain composition of Burn operations, on the CPU too: the oracle of the fused path.
    pub fn unfused(self) -> Self {
        let layers = match self.layers {
            Layers::ConvNet(net) => Layers::ConvNet(net.unfused()),
            Layers::ResNet(net) => Layers::ResNet(net.unfused()),
            Layers::Frozen(layer) => Layers::Frozen(layer),
        };
        Self { layers, ..self }
    }

    /// The same backbone with the convolutions of the fused path in this precision. Where the plain composition of Burn
    /// operations runs (another device, gradients through running statistics), it stays f32.
    ///
    /// # Errors
    /// Instructions this CPU does not have.
    pub fn at(self, precision: Precision) -> Result<Self, Error> {
        let layers = match self.layers {
            Layers::ConvNet(net) => Layers::ConvNet(net.at(precision)?),
            Layers::ResNet(net) => Layers::ResNet(net.at(precision)?),
            Layers::Frozen(layer) => Layers::Frozen(layer),
        };
        Ok(Self { layers, ..self })
    }

    /// Which architecture this is.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The device its parameters are on.
    pub fn device(&self) -> Device {
        match &self.layers {
            Layers::ConvNet(net) => net.blocks[0].conv.weight.val().device(),
            Layers::ResNet(net) => net.blocks[0].unit1.conv.weight.val().device(),
            Layers::Frozen(layer) => layer.device(),
        }
    }

    /// Whether this backbone can read `images`, and if not, why.
    pub(crate) fn check(&self, images: Images<'_>) -> Result<(), Error> {
        let [n, c, h, w] = images.shape();
        let channels = self.channels();
        if n == 0 || c < channels {
            return Err(Error::BatchShape {
                backbone: self.architecture.name(),
                expected: format!("at least one image of {channels} channels"),
                found: images.shape(),
            });
        }
        match self.row {
            None => self.architecture.dimension(h, w).map(|_| ()),
            Some((_, blocks)) if h.min(w) >> blocks == 0 => {
                let least = 1 << blocks;
                Err(Error::ImageTooSmall { backbone: "row of blocks", height: h, width: w, least })
            }
            Some(_) => Ok(()),
        }
    }

    /// `images`: [N, C, H, W] -> features [N, D].
    pub fn forward(&self, images: Tensor<4>, pass: &mut Pass<'_>) -> Result<Tensor<2>, Error> {
        match &self.layers {
            Layers::ConvNet(net) => net.forward(images, pass),
            Layers::ResNet(net) => net.forward(images, pass),
            Layers::Frozen(layer) => Ok(layer.forward(images)),
        }
    }

    /// Features on batch statistics, and their derivative along a direction of the parameters.
    pub(crate) fn forward_dual(
        &self,
        images: Tensor<4>,
        direction: &mut Direction<'_>,
    ) -> Result<Dual<2>, Error> {
        match &self.layers {
            Layers::ConvNet(net) => net.forward_dual(images, direction),
            Layers::ResNet(net) => net.forward_dual(images, direction),
            Layers::Frozen(_) => Err(Error::NoSecondOrder),
        }
    }

    /// The batch-norms in the order in which a forward pass meets them.
    pub(crate) fn norms_mut(&mut self) -> Vec<&mut BatchNorm> {
        match &mut self.layers {
            Layers::ConvNet(net) => net.norms_mut(),
            Layers::ResNet(net) => net.norms_mut(),
            Layers::Frozen(_) => Vec::new(),
        }
    }
}
