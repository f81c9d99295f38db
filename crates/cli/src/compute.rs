//! The flags that say what computes the network: shared by train, test, calibrate and bench.

/// Where and in which precision the network is computed.
#[derive(clap::Args)]
pub struct ComputeArgs {
    /// The hardware: cpu, or cuda, wgpu, metal where compiled in. The same as --set backbone.device=...
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// f32, bf16 (on a CPU with AMX or AVX-512 BF16) or bf16-emulated. The same as --set backbone.precision=...
    #[arg(long, value_name = "NAME")]
    precision: Option<String>,
}

impl ComputeArgs {
    /// The settings given by `--set`, then those of these flags.
    pub fn settings(&self, set: &[String]) -> Vec<String> {
        let key = |name: &str, value: &Option<String>| value.as_ref().map(|v| format!("backbone.{name}={v}"));
        let flags = [key("device", &self.device), key("precision", &self.precision)];
        set.iter().cloned().chain(flags.into_iter().flatten()).collect()
    }

    /// Whether any of these flags was given.
    pub fn given(&self) -> bool {
        self.device.is_some() || self.precision.is_some()
    }
}
