//! `[backbone]`: the network, and what computes it.

use super::explain::explained;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use siskin_nn::{Architecture, Hardware, Precision};

/// The numbers that convolutions multiply, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrecisionName {
    /// Single precision.
    #[default]
    F32,
    /// bf16 products with f32 sums, on a CPU that has them.
    Bf16,
    /// The same results anywhere, slowly.
    Bf16Emulated,
}

impl PrecisionName {
    /// As a config names it.
    pub fn name(self) -> &'static str {
        Precision::from(self).name()
    }
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Precision {
        match name {
            PrecisionName::F32 => Precision::F32,
            PrecisionName::Bf16 => Precision::Bf16,
            PrecisionName::Bf16Emulated => Precision::Bf16Emulated,
        }
    }
}

impl std::str::FromStr for PrecisionName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let named = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
        PrecisionName::deserialize(named).map_err(|e| explained(&e.to_string()))
    }
}

/// `[backbone]`: the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackboneConfig {
    /// `conv4`, `conv4s`, `conv6` or `resnet12`.
    pub name: Architecture,
    /// `cpu`, or `cuda`, `wgpu`, `metal` where compiled in.
    pub device: Hardware,
    /// The numbers that convolutions multiply.
    pub precision: PrecisionName,
    /// A safetensors file, a run folder or a model whose weights training starts from, in place of random ones; see docs/weights.md.
    pub weights: Option<String>,
    /// An added network (`siskin model add`) in place of one that is trained here: it stays as it is, its vectors are computed once. `name` and
    /// `data.image_size` then have no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Rank of a linear layer that is trained on those vectors; unset or 0 trains the Gaussian process alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Whether the CPU uses the fused blocks; false means Burn's own operations, some ten times slower.
    pub fused: bool,
}

impl Default for BackboneConfig {
    fn default() -> Self {
        BackboneConfig {
            name: Architecture::Conv4S,
            device: Hardware::Cpu,
            precision: PrecisionName::F32,
            weights: None,
            network: None,
            rank: None,
            fused: true,
        }
    }
}
