//! What holds for every method: stopped and resumed, on one thread and on two, tested with other ways and shots than
//! trained, calibrated, diverging, and better than the untrained model after a short training. A new method is a new line at the foot.

use crate::small::{assert_same_run, config, train, with_opener};
use siskin_calib::mean_interval95;
use siskin_data::SplitName;
use siskin_methods::MethodName;
use siskin_train::config::Config;
use siskin_train::evaluate::AnsweredEpisode;
use siskin_train::run::{Run, new_method};
use siskin_train::under_test::ModelUnderTest;
use siskin_train::{Error, calibration, protocol};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What training must gain over the untrained model beyond the 95 % interval of the gain.
const MARGIN: f64 = 0.02;

/// A method under test.
struct Case {
    method: &'static str,
    /// Settings, one list for each variant with a path of its own.
    variants: &'static [&'static [&'static str]],
    /// Whether it can be tested with another number of classes than it was trained with.
    any_way: bool,
}

impl Case {
    /// The small config of every variant, with a name.
    fn configs(&self, more: &[&str]) -> Vec<(String, Config)> {
        let name = format!("method={}", self.method);
        let configs = self.variants.iter().enumerate().map(|(i, variant)| {
            let settings = [&[name.as_str()][..], variant, more].concat();
            (format!("{}-{i}", self.method), config(&settings))
        });
        configs.collect()
    }

    fn stopped_and_resumed_it_has_the_bytes_of_a_run_that_never_stopped(&self) {
        let root = tempfile::tempdir().unwrap();
        for (name, config) in self.configs(&["train.episodes_per_step=2"]) {
            let (whole, parts) = (root.path().join(format!("{name}-whole")), root.path().join(name));
            train(&whole, &config, None);
            train(&parts, &config, Some(2));
            assert_same_run(&whole, &parts);
        }
    }

    fn one_thread_and_two_give_the_same_bytes_and_answers(&self) {
        let root = tempfile::tempdir().unwrap();
        for (name, config) in self.configs(&["train.episodes=4"]) {
            let folder = |threads: usize| root.path().join(format!("{name}-{threads}"));
            let answers = [1, 2].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    train(&folder(threads), &config, None);
                    let model =
                        with_opener(|opener| ModelUnderTest::open(&folder(threads), &[], opener)).unwrap();
                    protocol::answers(&model, SplitName::Test, 1).unwrap()
                })
            });
            assert_same_run(&folder(1), &folder(2));
            assert!(answers[0] == answers[1], "{name}: the answers differ");
        }
    }

    fn it_tests_and_calibrates_with_any_way_and_shot_or_says_why_not(&self) {
        let root = tempfile::tempdir().unwrap();
        for (name, config) in self.configs(&["train.episodes=2"]) {
            let folder = root.path().join(&name);
            train(&folder, &config, None);
            let lines = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
            assert!(lines.contains("\"skipped\":0") && !lines.contains("null"), "{name}: {lines}");
            for (way, shot) in [(3, 1), (3, 4), (5, 2), (2, 1)] {
                let settings = [format!("test.way={way}"), format!("test.shot={shot}")];
                let model = with_opener(|opener| ModelUnderTest::open(&folder, &settings, opener)).unwrap();
                let answers = protocol::answers(&model, SplitName::Test, 1);
                if way != 3 && !self.any_way {
                    let error = answers.unwrap_err().to_string();
                    assert!(error.contains(&format!("this episode has {way} classes")), "{name}: {error}");
                    continue;
                }
                let answers = answers.unwrap();
                for row in answers.iter().flat_map(|a| a.prediction.probabilities.chunks_exact(way)) {
                    let sum: f64 = row.iter().sum();
                    assert!((sum - 1.0).abs() < 1e-9, "{name} {way}-way {shot}-shot: {row:?}");
                    assert!(row.iter().all(|p| (0.0..=1.0).contains(p)), "{name}: {row:?}");
                }
                let validation = protocol::answers(&model, SplitName::Val, 1).unwrap();
                let calibrated = calibration::calibrate(&validation, &answers, false).unwrap();
                assert!(calibrated.measures.tuned.nll.is_finite(), "{name}");
            }
        }
    }

    fn a_diverging_run_is_stopped_with_its_steps_to_replay_and_without_a_best_model(&self) {
        let root = tempfile::tempdir().unwrap();
        let settings = ["train.learning_rate=1e30", "train.validate_every=1", "train.validate_episodes=2"];
        for (name, config) in self.configs(&settings) {
            let folder = root.path().join(&name);
            let mut run = with_opener(|opener| Run::start(&folder, config, opener)).unwrap();
            let error = run.train(&AtomicBool::new(false), &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::Diverged { in_a_row: 3, .. }), "{name}: {error}");
            let validations = run.trainer().validations_without_accuracy();
            assert!(validations > 0 && run.trainer().best().is_none(), "{name}: {:?}", run.trainer().best());
            let lines = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
            let missing = lines.matches("\"accuracy\":null,\"nll\":null,\"best\":false").count();
            assert_eq!(missing as u64, validations, "{name}: {lines}");
            assert!(!folder.join("best.safetensors").exists(), "{name}");
            let steps = with_opener(|opener| Run::replay(&folder, opener)).unwrap();
            assert!(steps.len() == 3 && steps.iter().all(|(_, report)| !report.taken), "{name}: {steps:?}");
        }
    }

    /// The smoke test: one thread, under 20 s of it.
    fn it_learns(&self) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let spent = pool.install(|| {
            let start = thread_time();
            self.all_variants_learn();
            thread_time() - start
        });
        println!("{}: {:.1} s of one thread", self.method, spent.as_secs_f64());
        // The bound is meant for optimised code.
        assert!(cfg!(debug_assertions) || spent.as_secs() < 20, "{}: {spent:?}", self.method);
    }

    fn all_variants_learn(&self) {
        let root = tempfile::tempdir().unwrap();
        let settings = [
            "episode.way=5",
            "train.episodes=40",
            "train.validate_every=0",
            "test.query=10",
            "test.episodes=20",
        ];
        for (name, config) in self.configs(&settings) {
            let folder = root.path().join(&name);
            train(&folder, &config, None);
            let model = with_opener(|opener| ModelUnderTest::open(&folder, &[], opener)).unwrap();
            let trained = accuracies(&model);
            // The same weights, kernels and episodes, before the first step.
            let fresh = new_method(&model.config, &model.data).unwrap();
            let untrained = accuracies(&ModelUnderTest { method: fresh, ..model });
            let gains: Vec<f64> =
                trained.iter().zip(&untrained).map(|(after, before)| after - before).collect();
            let gain = mean_interval95(&gains).unwrap();
            let before = untrained.iter().sum::<f64>() / untrained.len() as f64;
            println!("{name}: untrained {before:.3}, gain {:.3} +- {:.3}", gain.mean, gain.spread);
            assert!(gain.mean - gain.spread > MARGIN, "{name}: {before} before training, gain {gain:?}");
        }
    }
}

/// The accuracy of each test episode.
fn accuracies(model: &ModelUnderTest) -> Vec<f64> {
    protocol::answers(model, SplitName::Test, 1).unwrap().iter().map(AnsweredEpisode::accuracy).collect()
}

/// Processor time of this thread; zero where the system does not tell.
fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

macro_rules! methods {
    ($($module:ident: $method:literal, any_way: $any_way:literal, [$([$($set:literal),*]),+];)+) => {
        $(mod $module {
            use super::Case;

            const CASE: Case = Case {
                method: $method,
                variants: &[$(&[$($set),*]),+],
                any_way: $any_way,
            };

            #[test]
            fn stopped_and_resumed_it_has_the_bytes_of_a_run_that_never_stopped() {
                CASE.stopped_and_resumed_it_has_the_bytes_of_a_run_that_never_stopped();
            }

            #[test]
            fn one_thread_and_two_give_the_same_bytes_and_answers() {
                CASE.one_thread_and_two_give_the_same_bytes_and_answers();
            }

            #[test]
            fn it_tests_and_calibrates_with_any_way_and_shot_or_says_why_not() {
                CASE.it_tests_and_calibrates_with_any_way_and_shot_or_says_why_not();
            }

            #[test]
            fn a_diverging_run_is_stopped_with_its_steps_to_replay_and_without_a_best_model() {
                CASE.a_diverging_run_is_stopped_with_its_steps_to_replay_and_without_a_best_model();
            }

            #[test]
            fn it_learns() {
                CASE.it_learns();
            }
        })+

        #[test]
        fn every_method_is_tested_here() {
            let here = [$($method),+];
            for method in MethodName::all() {
                assert!(here.contains(&method.name()), "{method} has no line in this file");
            }
        }
    };
}

methods! {
    cdkt: "cdkt", any_way: true, [
        [],
        ["cdkt.objective=released", "cdkt.inference=paper", "cdkt.steps=2"],
        [
            "cdkt.objective=released-predictive", "cdkt.inference=paper", "cdkt.steps=2", "cdkt.kernel=rbf", "cdkt.tau=1.0",
            "cdkt.samples=200"
        ]
    ];
    dkt: "dkt", any_way: true, [[]];
    dkt_per_class: "dkt", any_way: false, [["dkt.output_scale=per-class", "dkt.probabilities=largest-target", "dkt.fresh_adam_every=3"]];
    ls_gibbs: "ls-gibbs", any_way: true, [
        ["ls-gibbs.chains=4", "ls-gibbs.test_sweeps=10"],
        ["ls-gibbs.chains=4", "ls-gibbs.test_sweeps=10", "ls-gibbs.objective=predictive", "ls-gibbs.probabilities=expected"]
    ];
    ove: "ove", any_way: true, [
        ["ove.chains=4", "ove.test_sweeps=10"],
        ["ove.chains=4", "ove.test_sweeps=10", "ove.objective=predictive"]
    ];
    feature_transfer: "feature-transfer", any_way: true, [[]];
    baseline_plus_plus: "baseline-plus-plus", any_way: true, [[]];
    matching_net: "matching-net", any_way: true, [[]];
    relation_net: "relation-net", any_way: true, [[], ["relation-net.loss=softmax"]];
    proto_net: "proto-net", any_way: true, [[]];
    maml: "maml", any_way: false, [
        ["maml.inner_steps=1", "maml.inner_learning_rate=0.1", "maml.test_steps=1"],
        // At the rate 0.1 an untrained network adapts so well (0.56 in two steps, 0.74 in five) that 40 noisy first-order
        // steps do not beat it beyond their interval.
        ["maml.order=first", "maml.inner_steps=2", "maml.inner_learning_rate=0.4", "maml.test_steps=2"]
    ];
    bmaml: "bmaml", any_way: false, [[]];
    bmaml_chaser: "bmaml-chaser", any_way: false, [[]];
    abml: "abml", any_way: false, [
        [
            "abml.inner_steps=1", "abml.inner_learning_rate=0.1", "abml.test_steps=1", "abml.samples=1",
            "abml.test_samples=2"
        ],
        [
            "abml.order=first", "abml.inner_steps=2", "abml.inner_learning_rate=0.1", "abml.test_steps=2",
            "abml.samples=1", "abml.test_samples=2"
        ]
    ];
}
