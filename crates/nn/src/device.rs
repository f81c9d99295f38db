//! Which hardware the network runs on, chosen at run time.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;

use crate::Error;

/// The hardware of a run: what `--device` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// Burn's pure-Rust CPU backend with our fused blocks. Always there.
    #[default]
    Cpu,
    /// An NVIDIA GPU; needs the cargo feature `cuda`.
    Cuda,
    /// Any GPU with a Vulkan, DirectX 12 or Metal driver; needs the cargo feature `wgpu`.
    Wgpu,
    /// An Apple GPU; needs the cargo feature `metal`.
    Metal,
}

impl DeviceChoice {
    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Wgpu => "wgpu",
            Self::Metal => "metal",
        }
    }

    /// Burn's handle of the device, or how to build a binary that has it.
    pub fn open(self) -> Result<Device, Error> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            #[cfg(feature = "cuda")]
            Self::Cuda => Ok(Device::cuda(burn::tensor::DeviceIndex::Default)),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "metal")]
            Self::Metal => Ok(Device::metal(burn::tensor::DeviceKind::DefaultDevice)),
            #[allow(unreachable_patterns)] // Reached unless every GPU feature is on.
            absent => Err(Error::DeviceNotCompiled { device: absent.name() }),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Self::Cpu, Self::Cuda, Self::Wgpu, Self::Metal]
            .into_iter()
            .find(|choice| choice.name() == name)
            .ok_or_else(|| Error::UnknownDevice { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_unknown_names_are_refused() {
        for name in ["cpu", "cuda", "wgpu", "metal"] {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        let error = "gpu".parse::<DeviceChoice>().unwrap_err().to_string();
        assert!(error.contains("`gpu`") && error.contains("cpu, cuda, wgpu or metal"));
        assert!(DeviceChoice::Cpu.open().is_ok());
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn an_absent_device_says_how_to_get_it() {
        let error = DeviceChoice::Wgpu.open().unwrap_err().to_string();
        assert!(error.contains("cargo build --release --features wgpu"), "{error}");
    }
}
