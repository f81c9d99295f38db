//! The golden values of the released programs in `tests/reference`.

#[path = "../examples/reference/calibration.rs"]
mod calibration;

use serde_json::Value;
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

/// Fields that a case may lack; `dim` is also the length of a row of features.
const OPTIONAL: [&str; 21] = [
    "dim",
    "outputscale",
    "lengthscale",
    "variance",
    "sigma_out",
    "mean_learned",
    "conditional_cov",
    "lam",
    "f",
    "iterations",
    "lr",
    "probs_monte_carlo_draws",
    "ece_as_released",
    "ece_one_vs_rest",
    "ece_one_vs_rest_as_released",
    "mce",
    "mce_as_released",
    "reported_ece",
    "reported_mce",
    "reported_brier",
    "bin_accuracy",
];
/// Fields whose numbers are compared with nothing: how the file was made, how far its draws spread, and of `sigma_out` and
/// `conditional_cov` what lies between points, which nothing reads.
const UNCOMPARED: [&str; 10] = [
    "lam",
    "f",
    "iterations",
    "lr",
    "probs_monte_carlo_draws",
    "probs_monte_carlo_spread",
    "scores_monte_carlo_error",
    "next_value",
    "sigma_out",
    "conditional_cov",
];

/// A check that passes whatever the file says would be worth nothing: it must notice each changed number and each missing field.
#[test]
fn every_field_of_every_case_counts() {
    let hook = std::panic::take_hook();
    // A check that breaks off at a spoiled case has noticed it; its message is not wanted here.
    std::panic::set_hook(Box::new(|_| {}));
    let unnoticed: Vec<String> = checks().iter().flat_map(|(file, _)| unnoticed(file)).collect();
    std::panic::set_hook(hook);
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

/// The fields of a file that can change or go unnoticed.
fn unnoticed(file: &str) -> Vec<String> {
    let json: Value = serde_json::from_str(&read(file)).unwrap();
    let mut unnoticed = Vec::new();
    for case in json["cases"].as_array().unwrap() {
        // The case alone, so that spoiling it is cheap.
        let mut whole = json.clone();
        whole["cases"] = Value::Array(vec![case.clone()]);
        let passes = |spoiled: &Value| check_file(file, &spoiled.to_string(), &checks())[0].result.is_ok();
        assert!(passes(&whole), "{file}: {}", case["name"]);
        let mut fields = Vec::new();
        pointers(case, "/cases/0", &mut fields);
        for (parent, field) in fields {
            let at = format!("{parent}/{field}");
            let mut changed = whole.clone();
            let number = enlarge(changed.pointer_mut(&at).unwrap());
            // A hidden unit may be off for every pair of maps: its weights then have no effect.
            let may_be_off = field.starts_with("fc1.") || field == "fc2.weight";
            // 30 sweeps may forget where they began.
            let start =
                file == "cdkt_predict.json" && ["alpha0", "omega0", "mu0", "v0"].contains(&field.as_str());
            let counts = number && !may_be_off && !start && !UNCOMPARED.contains(&field.as_str());
            if counts && passes(&changed) {
                unnoticed.push(format!("{file}, {}: {at} changed", case["name"]));
            }
            let mut less = whole.clone();
            less.pointer_mut(&parent).unwrap().as_object_mut().unwrap().remove(&field);
            if !OPTIONAL.contains(&field.as_str()) && passes(&less) {
                unnoticed.push(format!("{file}, {}: {at} missing", case["name"]));
            }
        }
    }
    unnoticed
}

/// Every field below a value: the pointer to its object, and its name.
fn pointers(value: &Value, at: &str, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                fields.push((at.into(), name.clone()));
                pointers(inner, &format!("{at}/{name}"), fields);
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate().filter(|(_, inner)| inner.is_object()) {
                pointers(inner, &format!("{at}/{index}"), fields);
            }
        }
        _ => {}
    }
}

/// Makes a number in the middle of a nested list larger; false where there is none.
fn enlarge(value: &mut Value) -> bool {
    match value {
        Value::Array(list) => {
            let middle = list.len() / 2;
            list.get_mut(middle).is_some_and(enlarge)
        }
        other => match other.as_f64() {
            // Also a number so small that a share of it would be within the tolerance of its array.
            Some(number) => {
                *other = serde_json::json!(number + 0.01 * (1.0 + number.abs()));
                true
            }
            None => false,
        },
    }
}

#[test]
fn what_no_check_knows_is_a_failure_and_never_passes() {
    let first = |file: &str, change: &dyn Fn(&mut Value)| {
        let mut json: Value = serde_json::from_str(&read(file)).unwrap();
        change(&mut json);
        let why = check_file(file, &json.to_string(), &checks()).remove(0).result;
        why.expect_err("a case that no check knows has passed").to_string()
    };
    let with =
        |field: &'static str, value: Value| move |json: &mut Value| json["cases"][0][field] = value.clone();
    for (file, change, says) in [
        ("cdkt_ml.json", with("kernel", "periodic".into()), "`kernel` is `\"periodic\"`"),
        ("cdkt_ml.json", with("dropout", 0.5.into()), "`dropout` is not part of this check"),
        ("dkt.json", with("norm_eps", 1e-3.into()), "`norm_eps`"),
        ("dkt.json", with("way", 4.into()), "`features` is"),
        ("maml.json", with("network", "resnet".into()), "`network`"),
        ("relationnet.json", with("loss_type", "hinge".into()), "`loss_type`"),
        ("pretraining.json", with("labels", serde_json::json!([0.5, 1, 2, 3, 4, 5])), "`labels`"),
        ("calibration_cdkt.json", with("kind", "histogram".into()), "`kind`"),
    ] {
        let why = first(file, &change);
        assert!(why.contains(says), "{file}: {why}");
    }
    let why = first("ove.json", &|json| json["dtype"] = "float32".into());
    assert!(why.contains("`dtype`"), "{why}");
    assert!(check_file("new.json", "{}", &checks())[0].result.is_err());
    assert!(check_file("dkt.json", "{\"dtype\": \"float64\", \"cases\": []}", &checks())[0].result.is_err());
}
