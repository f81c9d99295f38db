//! The golden values of calibration: every case within its tolerance.

#[path = "golden/check.rs"]
mod check;
#[path = "../../gp/tests/golden/checks/report.rs"]
mod report;

#[test]
fn every_case_is_within_its_tolerance() {
    let mut report = report::Report::default();
    check::check(include_str!("golden/calibration.json"), &mut report)
        .expect("the schema of calibration.json");
    assert!(report.finish(), "see the cases above");
}
