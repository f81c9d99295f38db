//! Whole small runs of CDKT on the embedded glyphs by every objective, and what it refuses.

use crate::small::{config, train, with_opener};
use siskin_train::protocol;
use siskin_train::run::Run;
use siskin_train::trainer::Event;
use siskin_train::under_test::ModelUnderTest;
use std::sync::atomic::AtomicBool;

#[test]
fn every_objective_trains_and_tests() {
    let root = tempfile::tempdir().unwrap();
    for (objective, inference) in [
        ("elbo", "paper"),
        ("elbo", "joint"),
        ("elbo", "collapsed"),
        ("direct", "collapsed"),
        ("direct", "natural"),
        ("predictive", "paper"),
        ("predictive", "joint"),
        ("predictive", "collapsed"),
        ("released", "paper"),
        ("released-predictive", "paper"),
    ] {
        let folder = root.path().join(format!("{objective}-{inference}"));
        let (objective, inference) =
            (format!("cdkt.objective={objective}"), format!("cdkt.inference={inference}"));
        let config =
            config(&[&objective, &inference, "cdkt.steps=2", "train.episodes=2", "cdkt.learn_tau=true"]);
        train(&folder, &config, None);
        let lines = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
        assert!(
            lines.contains("\"skipped\":0") && !lines.contains("null"),
            "{objective} {inference}: {lines}"
        );
        let model = with_opener(|opener| ModelUnderTest::open(&folder, &[], opener)).unwrap();
        let answers = protocol::answers(&model, siskin_data::SplitName::Test, 2).unwrap();
        let report = protocol::report(&model, &answers).unwrap();
        assert_eq!((report.episodes, report.groups.len()), (6, 2));
    }
}

/// Six episodes with so many steps of inference: what the person is told, and the log.
fn notices_and_log(steps: usize, objective: [&str; 2]) -> (Vec<String>, String) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("run");
    let [objective, inference] = objective;
    let set = [
        format!("cdkt.objective={objective}"),
        format!("cdkt.inference={inference}"),
        format!("cdkt.steps={steps}"),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let mut run = with_opener(|opener| Run::start(&folder, config(&set), opener)).unwrap();
    let mut notices = Vec::new();
    let mut listen = |event: &Event| {
        if let Event::Notice { text, .. } = event {
            notices.push(text.clone());
        }
    };
    run.train(&AtomicBool::new(false), &mut listen).unwrap();
    (notices, std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap())
}

#[test]
fn inference_that_does_not_converge_reaches_the_log_and_the_person() {
    let (notices, log) = notices_and_log(1, ["direct", "natural"]);
    assert!(notices.len() == 1 && notices[0].contains("does not converge"), "{notices:?}");
    let notice = log.lines().find(|line| line.contains("\"kind\":\"notice\"")).unwrap();
    assert!(notice.contains("does not converge"), "{notice}");
    assert_eq!(log.matches("\"residual\":").count(), 6, "{log}");

    let (notices, log) = notices_and_log(200, ["direct", "natural"]);
    assert!(notices.is_empty(), "{notices:?}");
    assert_eq!(log.matches("\"residual\":").count(), 6, "{log}");

    // The released two sweeps are part of that method: logged, but no notice.
    for objective in ["released", "released-predictive"] {
        let (notices, log) = notices_and_log(2, [objective, "paper"]);
        assert!(
            notices.is_empty() && log.matches("\"residual\":").count() == 6,
            "{objective}: {notices:?} {log}"
        );
    }
}

#[test]
fn a_shared_output_scale_is_tested_with_any_number_of_classes_and_one_per_class_says_why_not() {
    let root = tempfile::tempdir().unwrap();
    for scale in ["shared", "per-class"] {
        let folder = root.path().join(scale);
        train(&folder, &config(&[&format!("cdkt.output_scale={scale}"), "train.episodes=1"]), None);
        let settings = ["test.way=4".to_string(), "test.shot=2".to_string()];
        let model = with_opener(|opener| ModelUnderTest::open(&folder, &settings, opener)).unwrap();
        let answers = protocol::answers(&model, siskin_data::SplitName::Test, 1);
        match scale {
            "shared" => assert_eq!(answers.unwrap()[0].prediction.way, 4),
            _ => assert!(answers.unwrap_err().to_string().contains("output_scale = \"shared\"")),
        }
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused_before_anything_is_written() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("run");
    let config = config(&["cdkt.objective=predictive", "cdkt.inference=natural"]);
    let error = with_opener(|opener| Run::start(&folder, config, opener)).err().unwrap().to_string();
    assert!(error.contains("does not go with"), "{error}");
    assert!(!folder.exists());
}
