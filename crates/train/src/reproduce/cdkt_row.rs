//! How the rows of CDKT are trained and tested, and where the paper's text and the released code differ.

use super::scenario::Scenario;

/// The prior mean that the released code sets at test.
const RELEASED_MEAN: f64 = -5.0;

/// CDKT is validated in its last 99 epochs.
pub(super) fn validate_from(epochs: u64) -> u64 {
    100 * epochs - 9_900
}

/// The default number of epochs of the released code.
pub(super) fn default_epochs(shot: u64) -> u64 {
    if shot == 1 { 600 } else { 400 }
}

/// A row of CDKT.
pub(super) struct Cdkt {
    scenario: Scenario,
    shot: u64,
    /// ELBO (ML), else predictive likelihood (PL).
    elbo: bool,
    kernel: &'static str,
    steps: u64,
    /// The temperature in training.
    pub tau: f64,
    eq15: bool,
}

impl Cdkt {
    /// From the last part of a cell's name: `ml-low-tau`, `tau0.5`, `rbf`, `3steps`.
    pub(super) fn named(row: &str, scenario: Scenario, shot: u64, eq15: bool) -> Cdkt {
        let mut cdkt = Cdkt { scenario, shot, elbo: true, kernel: "cosine", steps: 2, tau: 0.2, eq15 };
        let number = "paper.toml has numbers in its keys";
        if let Some(loss) = row.strip_suffix("-low-tau") {
            cdkt.elbo = loss == "ml";
            if !cdkt.elbo && shot == 5 && scenario != Scenario::Cub {
                cdkt.tau = 0.5;
            }
        } else if let Some(loss) = row.strip_suffix("-tau1") {
            (cdkt.elbo, cdkt.tau) = (loss == "ml", 1.0);
        } else if let Some(tau) = row.strip_prefix("tau") {
            cdkt.tau = tau.parse().expect(number);
        } else if let Some(steps) = row.strip_suffix("steps") {
            cdkt.steps = steps.parse().expect(number);
        } else {
            let kernels = ["cosine", "linear", "matern52", "poly1", "poly2", "rbf"];
            let named = kernels.into_iter().find(|kernel| kernel.starts_with(row));
            cdkt.kernel = named.expect("paper.toml names kernels that exist");
        }
        cdkt
    }

    /// As the paper's text has them.
    pub(super) fn epochs(&self) -> u64 {
        let low_cross = self.scenario == Scenario::Cross && self.tau < 1.0;
        if !self.elbo || low_cross { 800 } else { default_epochs(self.shot) }
    }

    /// As the released code has them.
    fn released_epochs(&self) -> u64 {
        match (self.elbo, self.scenario, self.shot) {
            (true, Scenario::Mini, 5) | (true, Scenario::Cross, 1) => 800,
            (true, Scenario::Cross, 5) => 400,
            _ => self.epochs(),
        }
    }

    /// The objective, for people.
    pub(super) fn loss(&self) -> &'static str {
        if self.elbo { "ELBO (ML)" } else { "predictive likelihood (PL)" }
    }

    /// The prior mean at test as the paper's text has it.
    fn mean_of_text(&self) -> f64 {
        let negative = self.tau < 1.0 && (self.elbo || self.scenario == Scenario::Cross);
        if negative { RELEASED_MEAN } else { 0.0 }
    }

    /// The lines of `[cdkt]`.
    pub(super) fn settings(&self) -> String {
        let shape = if self.kernel == "cosine" { "" } else { "kernel_shape = \"per-class\"\n" };
        let objective = match (self.elbo, self.eq15) {
            (true, _) => "released",
            (false, false) => "released-predictive",
            (false, true) => "predictive",
        };
        let (inference, sweeps, mean, select) = match self.eq15 {
            true => ("paper", 20, self.mean_of_text(), ""),
            false => ("released", 30, RELEASED_MEAN, "select_as_trained = true\n"),
        };
        format!(
            "kernel = \"{}\"\noutput_scale = \"per-class\"\n{shape}inference = \"paper\"\nobjective = \"{objective}\"\n\
             steps = {}\ntau = {:?}\ntest_inference = \"{inference}\"\ntest_steps = {sweeps}\ntest_prior_mean = {mean:?}\n{select}",
            self.kernel, self.steps, self.tau
        )
    }

    /// Where the paper's text and the released code differ.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.eq15 {
            let (row, set) = match self.mean_of_text() == RELEASED_MEAN {
                true => ("", ""),
                false => (" and, for this row, the prior mean 0", " --set cdkt.test_prior_mean=0"),
            };
            notes.push(format!(
                "Training and test as in the released code: 30 sweeps and the prior mean -5 at test. The paper's text has 20 \
                 sweeps{row}:"
            ));
            notes.push(format!("--set cdkt.test_steps=20{set}"));
        }
        let released = self.released_epochs();
        if released != self.epochs() {
            notes.push(format!("Epochs as in the paper's text; the released code trains {released}:"));
            let (episodes, from) = (100 * released, validate_from(released));
            notes.push(format!("--set train.episodes={episodes} --set train.validate_from={from}"));
        }
        notes
    }
}
