//! What computes: the flags that say it of the network, of commands that have a config and of those that have a finished model, and the
//! threads of all else.

use siskin_adapt::Model;
use siskin_nn::{DeviceChoice, Hardware};
use siskin_train::config::{Config, PrecisionName};

/// Where a finished model is computed: shared by adapt, predict, embed and serve.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct DeviceArg {
    /// The hardware that computes the network: cpu, or cuda, wgpu, metal where compiled in [default: cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<Hardware>,
}

impl DeviceArg {
    /// The hardware.
    pub(crate) fn choice(self) -> DeviceChoice {
        self.device.unwrap_or_default().into()
    }

    /// Whether it is this machine's processor.
    pub(crate) fn is_cpu(self) -> bool {
        self.choice() == DeviceChoice::Cpu
    }

    /// The model that `name` means, on it.
    pub(crate) fn open(self, name: &str) -> siskin_adapt::Result<Model> {
        Ok(Model::open_on(name, self.choice())?)
    }
}

/// Does some work on a thread of the pool. What shares its work among threads takes those of the pool it runs in: on the main thread it
/// would have that one alone, whatever `--threads` says.
pub(crate) fn in_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| work())
}

/// Where and in which precision the network is computed.
#[derive(clap::Args)]
pub(crate) struct ComputeArgs {
    /// The hardware: cpu, or cuda, wgpu, metal where compiled in. The same as --set backbone.device=...
    #[arg(long, value_name = "NAME")]
    device: Option<Hardware>,
    /// f32, bf16 (on a CPU with AMX or AVX-512 BF16) or bf16-emulated. The same as --set backbone.precision=...
    #[arg(long, value_name = "NAME")]
    precision: Option<PrecisionName>,
}

impl ComputeArgs {
    /// Puts what was given in its place.
    pub(crate) fn apply(&self, config: &mut Config) {
        let backbone = &mut config.backbone;
        backbone.device = self.device.unwrap_or(backbone.device);
        backbone.precision = self.precision.unwrap_or(backbone.precision);
    }

    /// The same as settings of a config, for commands that make many.
    pub(crate) fn settings(&self) -> Vec<String> {
        let device = self.device.map(|device| format!("backbone.device={device}"));
        let precision = self.precision.map(|precision| format!("backbone.precision={}", precision.name()));
        device.into_iter().chain(precision).collect()
    }

    /// The hardware alone.
    pub(crate) fn device(&self) -> DeviceArg {
        DeviceArg { device: self.device }
    }

    /// Whether any of these flags was given.
    pub(crate) fn given(&self) -> bool {
        self.device.is_some() || self.precision.is_some()
    }
}
