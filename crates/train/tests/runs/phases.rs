//! Runs of several phases on the embedded glyphs: pre-training, evidence, predictive likelihood, fitted scalars.

use crate::small::{assert_same_run, train, with_opener};
use siskin_data::SplitName;
use siskin_train::config::Config;
use siskin_train::protocol;
use siskin_train::run::Run;
use siskin_train::trainer::Event;
use siskin_train::under_test::ModelUnderTest;
use std::sync::atomic::AtomicBool;

/// The keys of the phases that learn by predictive likelihood.
const PREDICTIVE: &str = r#"[phase.cdkt]
kernel = "rbf"
objective = "predictive"
inference = "joint"
steps = 3
prior_mean = -4.0
learn_prior_mean = true
test_inference = "joint"
test_steps = 3"#;

/// `PREDICTIVE` stands for those keys.
const PHASES: &str = r#"
seed = 3

[episode]
way = 3
query = 3

[train]
episodes = 6
validate_every = 3
validate_episodes = 4
save_every = 2
select = "nll"
ema = 0.5

[test]
groups = 1
episodes = 4
query = 3

[cdkt]
scalars = "log"

[[phase]]
name = "pre-training"
method = "baseline-plus-plus"
train = { episodes = 4, schedule = "cosine", warmup_episodes = 2, weight_decay = 5e-4 }
[phase.baseline-plus-plus]
batch_size = 8
label_smoothing = 0.1

[[phase]]
name = "evidence"

[[phase]]
name = "prediction"
scalars = "fresh"
train = { kernel_learning_rate = 0.3, validate_way = 5, validate_shot = 2 }
episode = { way = 4 }
PREDICTIVE

[[phase]]
name = "scalars"
kind = "fit-scalars"
fit = { episodes = 6, shapes = [[3, 1], [4, 2]], iterations = 20 }
PREDICTIVE
"#;

#[test]
fn stopped_in_any_phase_and_resumed_the_bytes_are_the_same() {
    let root = tempfile::tempdir().unwrap();
    let config = Config::parse(&PHASES.replace("PREDICTIVE", PREDICTIVE), &[]).unwrap();
    let whole = root.path().join("whole");
    train(&whole, &config, None);
    // Within a phase, and at the last step of each.
    for stop in [4, 7, 13, 16] {
        let parts = root.path().join(stop.to_string());
        train(&parts, &config, Some(stop));
        assert_same_run(&whole, &parts);
    }
}

#[test]
fn the_fit_lowers_the_loss_and_the_model_tests_at_any_shape() {
    let root = tempfile::tempdir().unwrap();
    let config = Config::parse(&PHASES.replace("PREDICTIVE", PREDICTIVE), &[]).unwrap();
    let mut run = with_opener(|opener| Run::start(root.path(), config, opener)).unwrap();
    assert_eq!(run.length(), 16);
    let (mut phases, mut fits) = (Vec::new(), Vec::new());
    run.train(&AtomicBool::new(false), &mut |event| match event {
        Event::Phase { name, .. } => phases.push(name.clone()),
        Event::Fitted { fit, .. } => fits.push(*fit),
        _ => {}
    })
    .unwrap();
    assert_eq!(phases, ["pre-training", "evidence", "prediction", "scalars"]);
    assert!(fits.len() == 1 && fits[0].after < fits[0].before, "{fits:?}");
    for (way, shot) in [(3, 1), (5, 3)] {
        let settings = [format!("test.way={way}"), format!("test.shot={shot}")];
        let model = with_opener(|opener| ModelUnderTest::open(root.path(), &settings, opener)).unwrap();
        assert_eq!((model.config.method.name(), model.episodes), ("cdkt", 16));
        let answers = protocol::answers(&model, SplitName::Test, 1).unwrap();
        assert_eq!(answers[0].prediction.way, way);
    }
}

#[test]
fn the_example_configs_name_phases_that_fit_together() {
    for name in ["omniglot", "cub", "mini-imagenet"] {
        let path = format!("{}/../../configs/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let config = Config::load(path.as_ref(), &[]).unwrap();
        let phases = siskin_train::phase::phases(&config).unwrap();
        assert!(phases.len() >= 3, "{name}: {}", phases.len());
    }
}
