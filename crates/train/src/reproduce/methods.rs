//! How the rows of Table 1 that are not CDKT are trained: settings and length.

/// How long a row is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// 600 epochs (1-shot) or 400 (5-shot) of 100 optimiser steps, each on so many tasks.
    Epochs {
        /// Tasks of one step.
        tasks: u64,
    },
    /// Passes over the base classes in batches of 16.
    Passes,
}

/// A row of Table 1 by another method than CDKT.
#[derive(Debug, Clone, Copy)]
pub(super) struct MethodRow {
    /// The row's key.
    pub key: &'static str,
    /// The method.
    pub method: &'static str,
    /// The lines of its table.
    pub settings: &'static str,
    /// How long it trains.
    pub length: Length,
    /// Adam's rate for kernel parameters, where it has some.
    pub kernel_rate: Option<&'static str>,
}

impl MethodRow {
    const fn new(key: &'static str, method: &'static str, settings: &'static str) -> MethodRow {
        MethodRow { key, method, settings, length: Length::Epochs { tasks: 1 }, kernel_rate: None }
    }

    const fn kernel_rate(self, rate: &'static str) -> MethodRow {
        MethodRow { kernel_rate: Some(rate), ..self }
    }

    const fn length(self, length: Length) -> MethodRow {
        MethodRow { length, ..self }
    }
}

/// All of them.
pub(super) const METHOD_ROWS: [MethodRow; 14] = [
    MethodRow::new("feature-transfer", "feature-transfer", "").length(Length::Passes),
    MethodRow::new("baseline-plus-plus", "baseline-plus-plus", "").length(Length::Passes),
    MethodRow::new("matching-net", "matching-net", ""),
    MethodRow::new("proto-net", "proto-net", ""),
    MethodRow::new("relation-net", "relation-net", "loss = \"mse\"\nprobabilities = \"softmax\"\n"),
    MethodRow::new("maml", "maml", MAML).length(Length::Epochs { tasks: 4 }),
    MethodRow::new("dkt", "dkt", DKT).kernel_rate("1e-4"),
    MethodRow::new("bmaml", "bmaml", BMAML),
    MethodRow::new("bmaml-chaser", "bmaml-chaser", CHASER),
    MethodRow::new("abml", "abml", ABML),
    MethodRow::new("ls-gibbs-ml", "ls-gibbs", GIBBS_ML).kernel_rate("1e-3"),
    MethodRow::new("ls-gibbs-pl", "ls-gibbs", GIBBS_PL).kernel_rate("1e-3"),
    MethodRow::new("ove-ml", "ove", GIBBS_ML).kernel_rate("1e-3"),
    MethodRow::new("ove-pl", "ove", GIBBS_PL).kernel_rate("1e-3"),
];

const DKT: &str = "\
output_scale = \"per-class\"
mean = \"per-class\"
noise = 0.1
fresh_adam_every = 100
";

const MAML: &str = "\
order = \"second\"
inner_steps = 5
inner_learning_rate = 0.01
test_steps = 5
";

const BMAML: &str = "\
particles = 20
inner_steps = 1
inner_learning_rate = 0.01
test_steps = 1
as_released = true
";

const CHASER: &str = "\
particles = 20
inner_steps = 1
inner_learning_rate = 0.01
leader_steps = 1
leader_learning_rate = 0.005
test_steps = 5
as_released = true
";

const ABML: &str = "\
order = \"second\"
inner_steps = 5
inner_learning_rate = 0.01
samples = 5
kl_weight = 0.001
test_steps = 5
test_samples = 10
";

const GIBBS_ML: &str = "\
objective = \"marginal\"
chains = 20
sweeps = 1
test_sweeps = 50
as_released = true
select_as_trained = true
";

const GIBBS_PL: &str = "\
objective = \"predictive\"
chains = 20
sweeps = 1
test_sweeps = 50
as_released = true
select_as_trained = true
";
