//! ECE, MCE and bins against the golden values, where they are to be had.

use std::path::PathBuf;

use serde_json::Value;
use siskin_calib::{Predictions, Reliability};

fn shared() -> PathBuf {
    match std::env::var_os("SISKIN_SHARED") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    }
}

fn predictions(case: &Value) -> Predictions {
    let rows: Vec<Vec<f64>> = serde_json::from_value(case["probs"].clone()).unwrap();
    let labels: Vec<usize> = serde_json::from_value(case["labels"].clone()).unwrap();
    let classes = rows[0].len();
    Predictions::new(rows.concat(), labels, classes).unwrap()
}

#[test]
fn calibration_cases() {
    let path = shared().join("golden/public/calibration.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let golden: Value = serde_json::from_str(&text).unwrap();
    let tol = golden["tol"]["abs"].as_f64().unwrap();
    let close = |got: f64, want: &Value| (got - want.as_f64().unwrap()).abs() <= tol;
    let cases = golden["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let n_bins = case["n_bins"].as_u64().unwrap() as usize;
        let r = Reliability::new(&predictions(case), n_bins).unwrap();
        assert!(close(r.ece(), &case["ece"]), "ECE {} {}", r.ece(), case["ece"]);
        assert!(close(r.mce(), &case["mce"]), "MCE {} {}", r.mce(), case["mce"]);
        let filled: Vec<_> = r.bins.iter().enumerate().filter(|(_, b)| b.count > 0).collect();
        let expected = case["bins"].as_array().unwrap();
        assert_eq!(filled.len(), expected.len());
        for ((i, bin), want) in filled.into_iter().zip(expected) {
            assert_eq!(
                (i as u64, bin.count as u64),
                (want["bin"].as_u64().unwrap(), want["count"].as_u64().unwrap())
            );
            assert!(
                close(bin.confidence, &want["conf"]) && close(bin.accuracy, &want["acc"]),
                "{bin:?} {want}"
            );
        }
    }
}
