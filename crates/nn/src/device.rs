//! Which hardware the network runs on, chosen at run time.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use siskin_cpu::Precision;

use crate::Error;

/// The kinds of hardware, by the names used in configs and on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hardware {
    /// This machine's processor. Always there.
    #[default]
    Cpu,
    /// An NVIDIA GPU; needs the cargo feature `cuda`.
    Cuda,
    /// Any GPU with a Vulkan, DirectX 12 or Metal driver; needs the cargo feature `wgpu`.
    Wgpu,
    /// An Apple GPU; needs the cargo feature `metal`.
    Metal,
}

impl Hardware {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Cuda, Self::Wgpu, Self::Metal];

    /// The name used in configs and on the command line.
    pub fn name(self) -> &'static str {
        DeviceChoice::from(self).name()
    }
}

impl fmt::Display for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Hardware {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|hardware| hardware.name() == name)
            .ok_or_else(|| Error::UnknownDevice { name: name.to_owned() })
    }
}

impl From<Hardware> for DeviceChoice {
    fn from(hardware: Hardware) -> DeviceChoice {
        match hardware {
            Hardware::Cpu => DeviceChoice::Cpu,
            Hardware::Cuda => DeviceChoice::Cuda,
            Hardware::Wgpu => DeviceChoice::Wgpu,
            Hardware::Metal => DeviceChoice::Metal,
        }
    }
}

/// The hardware of a run, and how the network is computed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// Burn's pure-Rust CPU backend with our fused blocks. Always there.
    #[default]
    Cpu,
    /// The CPU with convolutions in mixed precision.
    CpuAt(Precision),
    /// The CPU by Burn's own operations only: the slow oracle of the fused blocks.
    CpuUnfused,
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
            Self::Cpu | Self::CpuAt(_) | Self::CpuUnfused => "cpu",
            Self::Cuda => "cuda",
            Self::Wgpu => "wgpu",
            Self::Metal => "metal",
        }
    }

    /// The numbers its convolutions multiply.
    pub fn precision(self) -> Precision {
        match self {
            Self::CpuAt(precision) => precision,
            _ => Precision::F32,
        }
    }

    /// The same hardware computing in this precision, by the fused blocks or without them.
    ///
    /// # Errors
    /// Mixed precision on another device than the CPU or without the fused blocks.
    pub fn with(self, precision: Precision, fused: bool) -> Result<Self, Error> {
        match (self.name(), precision, fused) {
            ("cpu", Precision::F32, true) => Ok(Self::Cpu),
            ("cpu", Precision::F32, false) => Ok(Self::CpuUnfused),
            ("cpu", mixed, true) => Ok(Self::CpuAt(mixed)),
            (_, Precision::F32, _) => Ok(self),
            (device, ..) => Err(Error::PrecisionElsewhere { device, precision: precision.name() }),
        }
    }

    /// Burn's handle of the device, or how to build a binary that has it. For a network that knows nothing of mixed
    /// precision; [`crate::Backbone::on`] does.
    pub fn open(self) -> Result<Device, Error> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            Self::CpuAt(_) | Self::CpuUnfused => Err(Error::FusedSingleOnly),
            #[cfg(feature = "cuda")]
            Self::Cuda => gpu::cuda(),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => gpu::wgpu(),
            #[cfg(feature = "metal")]
            Self::Metal => gpu::metal(),
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

/// Devices are asked for before their first use: Burn opens them then, and panics where there is none.
#[cfg(any(feature = "cuda", feature = "wgpu", feature = "metal"))]
mod gpu {
    use super::Error;
    use burn::tensor::Device;

    #[cfg(feature = "cuda")]
    pub(super) fn cuda() -> Result<Device, Error> {
        use burn::tensor::{DeviceIndex, DeviceType};
        match Device::enumerate(DeviceType::Cuda).is_empty() {
            true => Err(Error::DeviceRefused {
                device: "cuda",
                why: "there is no NVIDIA driver (libcuda) or no GPU that it knows".into(),
            }),
            false => Ok(Device::cuda(DeviceIndex::Default)),
        }
    }

    #[cfg(feature = "wgpu")]
    pub(super) fn wgpu() -> Result<Device, Error> {
        once("wgpu", Device::wgpu_options(), &WGPU)
    }

    #[cfg(feature = "metal")]
    pub(super) fn metal() -> Result<Device, Error> {
        let options = Device::wgpu_options().graphics_api(burn::tensor::wgpu::WgpuBackend::Metal);
        once("metal", options, &METAL)
    }

    // A driver is opened once in a process; all networks share it.
    #[cfg(any(feature = "wgpu", feature = "metal"))]
    type Opened = std::sync::OnceLock<Result<Device, String>>;
    #[cfg(feature = "wgpu")]
    static WGPU: Opened = Opened::new();
    #[cfg(feature = "metal")]
    static METAL: Opened = Opened::new();

    #[cfg(any(feature = "wgpu", feature = "metal"))]
    fn once(
        device: &'static str,
        options: burn::tensor::wgpu::WgpuOptions,
        opened: &Opened,
    ) -> Result<Device, Error> {
        let opened = opened.get_or_init(|| options.init().map_err(|error| error.to_string()));
        opened.clone().map_err(|why| Error::DeviceRefused { device, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_unknown_names_are_refused() {
        for name in ["cpu", "cuda", "wgpu", "metal"] {
            assert_eq!(name.parse::<Hardware>().unwrap().to_string(), name);
        }
        let error = "gpu".parse::<Hardware>().unwrap_err().to_string();
        assert!(error.contains("`gpu`") && error.contains("cpu, cuda, wgpu or metal"));
        assert!(DeviceChoice::Cpu.open().is_ok());
    }

    #[test]
    fn mixed_precision_is_for_the_fused_cpu_path() {
        use Precision::{Bf16Emulated, F32};
        assert_eq!(DeviceChoice::Cpu.with(F32, true).unwrap(), DeviceChoice::Cpu);
        assert_eq!(DeviceChoice::Cpu.with(F32, false).unwrap(), DeviceChoice::CpuUnfused);
        let mixed = DeviceChoice::Cpu.with(Bf16Emulated, true).unwrap();
        assert_eq!((mixed, mixed.name()), (DeviceChoice::CpuAt(Bf16Emulated), "cpu"));
        assert_eq!(DeviceChoice::Cuda.with(F32, true).unwrap(), DeviceChoice::Cuda);
        let error = DeviceChoice::Cuda.with(Bf16Emulated, true).unwrap_err().to_string();
        assert!(error.contains("bf16-emulated") && error.contains("cuda"), "{error}");
        assert!(DeviceChoice::Cpu.with(Bf16Emulated, false).is_err());
        // A network that does not ask for the precision must not compute in another one silently.
        assert!(mixed.open().is_err());
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn an_absent_device_says_how_to_get_it() {
        let error = DeviceChoice::Wgpu.open().unwrap_err().to_string();
        assert!(error.contains("cargo build --release --features wgpu"), "{error}");
    }
}
