//! The golden values of the released programs in `tests/reference`.

#[path = "../examples/reference/calibration.rs"]
mod calibration;

use siskin_methods::reference::{CHECKS, Check, check_file};
use std::path::Path;

/// One test for each file, so that a failure names it; `count` is the number of its cases.
macro_rules! files {
    ($($name:ident: $count:literal;)+) => {
        $(#[test]
        fn $name() {
            all_cases_pass(stringify!($name), $count);
        })+

        #[test]
        fn every_file_of_the_folder_and_every_check_has_its_test() {
            let tested = [$(concat!(stringify!($name), ".json")),+];
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
            let mut files: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .filter(|name| name.ends_with(".json"))
                .collect();
            files.sort();
            assert_eq!(files, tested);
            let mut checks: Vec<&str> = checks().into_iter().map(|(name, _)| name).collect();
            checks.sort_unstable();
            assert_eq!(checks, tested);
        }
    };
}

files! {
    bayesian_maml: 6;
    calibration_cdkt: 5;
    calibration_dkt: 5;
    calibration_ove: 3;
    cdkt_ml: 7;
    cdkt_pl: 4;
    cdkt_predict: 6;
    dkt: 5;
    head_fit: 4;
    ls_gibbs: 4;
    maml: 5;
    matchingnet: 3;
    ove: 5;
    pretraining: 3;
    protonet: 3;
    relationnet: 4;
}

fn checks() -> Vec<(&'static str, Check)> {
    CHECKS.iter().chain(calibration::CHECKS).copied().collect()
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn all_cases_pass(name: &str, count: usize) {
    let name = format!("{name}.json");
    let outcomes = check_file(&name, &read(&name), &checks());
    assert_eq!(outcomes.len(), count);
    for outcome in outcomes {
        if let Err(why) = outcome.result {
            panic!("{}: {}: {why}", outcome.file, outcome.case);
        }
    }
}

/// A check that passes whatever the file says would be worth nothing: each must notice one changed output.
#[test]
fn a_changed_number_is_noticed() {
    for (file, _) in checks() {
        let json: serde_json::Value = serde_json::from_str(&read(file)).unwrap();
        let mut noticed = 0;
        for case in 0..json["cases"].as_array().unwrap().len() {
            let mut changed = json.clone();
            if spoil(&mut changed["cases"][case]) {
                let outcomes = check_file(file, &changed.to_string(), &checks());
                assert!(outcomes[case].result.is_err(), "{file}, case {case}: a changed loss passes");
                noticed += 1;
            }
        }
        assert!(noticed > 0, "{file} has no output that this test changes");
    }
}

/// Makes the first output found in a case larger by a thousandth.
fn spoil(case: &mut serde_json::Value) -> bool {
    for output in ["loss", "scores", "ece", "predictive_mean", "nll"] {
        if let Some(value) = case.get_mut(output) {
            return enlarge(value);
        }
    }
    let parts = ["episodes", "marginal", "min_ece", "value"];
    parts.into_iter().any(|part| match case.get_mut(part) {
        Some(serde_json::Value::Array(list)) => list.first_mut().is_some_and(spoil),
        Some(serde_json::Value::Number(_)) => enlarge(&mut case[part]),
        Some(inner) => spoil(inner),
        None => false,
    })
}

fn enlarge(value: &mut serde_json::Value) -> bool {
    match value {
        serde_json::Value::Array(list) => list.first_mut().is_some_and(enlarge),
        other => match other.as_f64() {
            // Also a number so small that a share of it would be within the tolerance of its array.
            Some(number) => {
                *other = serde_json::json!(number * 1.01 + 0.01);
                true
            }
            None => false,
        },
    }
}
