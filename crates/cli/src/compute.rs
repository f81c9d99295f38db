//! The flags that say what computes the network: shared by train, test, calibrate and bench.

use siskin_nn::Hardware;
use siskin_train::config::{Config, PrecisionName};

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

    /// Whether any of these flags was given.
    pub(crate) fn given(&self) -> bool {
        self.device.is_some() || self.precision.is_some()
    }
}
