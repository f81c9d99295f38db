//! `calibration_*.json`: the calibration measures and the grid of the released programs.

use siskin_calib::{PAPER_BINS, Predictions, Reliability, Temperature, brier, nll, tune_released};
use siskin_methods::Scores;
use siskin_methods::reference::{Case, Check, Comparison, Mismatch};

/// The accuracy of a bin is in single precision in the released code.
const TOLERANCE: f64 = 1e-6;

/// The checks by file.
pub(crate) const CHECKS: &[(&str, Check)] =
    &[("calibration_cdkt.json", check), ("calibration_dkt.json", check), ("calibration_ove.json", check)];

fn check(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    match case.text("kind")? {
        "measure" => measure(case),
        "grid" => grid(case),
        "temperature" => temperature(case),
        _ => Err(case.unknown("kind")),
    }
}

fn refused(error: siskin_calib::Error) -> Mismatch {
    Mismatch::Refused(error.to_string())
}

fn predictions(case: &Case<'_>, values: Vec<f64>) -> Result<Predictions, Mismatch> {
    Predictions::new(values, case.counts("labels")?, case.count("way")?).map_err(refused)
}

/// `logits [rows][way]`.
fn logits(case: &Case<'_>) -> Result<Vec<f64>, Mismatch> {
    case.shaped("logits", &[case.count("rows")?, case.count("way")?])
}

/// softmax(logits / temperature).
fn softmax(case: &Case<'_>) -> Result<Predictions, Mismatch> {
    let temperature = case.number("temperature")?;
    let values = logits(case)?.iter().map(|logit| logit / temperature).collect();
    predictions(case, Scores { values, way: case.count("way")? }.softmax())
}

fn measure(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let mut compare = Comparison::default();
    let predicted = softmax(case)?;
    let found = predicted.probabilities().as_slice();
    compare.close("probs", found, &case.values("probs")?, 1e-8)?;
    let reliability = Reliability::new(&predicted, PAPER_BINS).map_err(refused)?;
    case.number("ece")?;
    let mut one = |field: &str, found: f64| -> Result<(), Mismatch> {
        match case.has(field) {
            true => compare.close(field, &[found], &[case.number(field)?], TOLERANCE),
            false => Ok(()),
        }
    };
    for field in ["ece", "ece_as_released", "reported_ece"] {
        one(field, reliability.ece())?;
    }
    for field in ["mce", "mce_as_released", "reported_mce"] {
        one(field, reliability.mce())?;
    }
    one("reported_brier", brier(&predicted))?;
    if case.has("ece_one_vs_rest") {
        let temperature = case.number("temperature")?;
        let sigmoid = |logit: &f64| 1.0 / (1.0 + (-logit / temperature).exp());
        let sigmoids: Vec<f64> = logits(case)?.iter().map(sigmoid).collect();
        let rows = sigmoids.chunks_exact(case.count("way")?);
        let values = rows.flat_map(|row| row.iter().map(|s| s / row.iter().sum::<f64>())).collect();
        let ece = Reliability::new(&predictions(case, values)?, PAPER_BINS).map_err(refused)?.ece();
        one("ece_one_vs_rest", ece)?;
        one("ece_one_vs_rest_as_released", ece)?;
    }
    if case.has("bin_accuracy") {
        let accuracies: Vec<f64> =
            reliability.bins.iter().map(|bin| if bin.count == 0 { 0.0 } else { bin.accuracy }).collect();
        compare.close("bin_accuracy", &accuracies, &case.values("bin_accuracy")?, TOLERANCE)?;
    }
    Ok(compare)
}

/// The mean over samples of sigma(f_k / t) / sum_c sigma(f_c / t), for `samples [times][way][rows]`.
fn likelihood(case: &Case<'_>, t: f64) -> Result<Predictions, Mismatch> {
    let (way, rows, times) = (case.count("way")?, case.count("rows")?, case.count("times")?);
    let samples = case.shaped("samples", &[times, way, rows])?;
    let mut p = vec![0.0; rows * way];
    for sample in samples.chunks_exact(way * rows) {
        for row in 0..rows {
            let sigma: Vec<f64> =
                (0..way).map(|c| 1.0 / (1.0 + (-sample[c * rows + row] / t).exp())).collect();
            let sum: f64 = sigma.iter().sum();
            (0..way).for_each(|c| p[row * way + c] += sigma[c] / sum / times as f64);
        }
    }
    predictions(case, p)
}

fn grid(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let temperatures = case.values("temperatures")?;
    let mut compare = Comparison::default();
    let chosen = tune_released(&temperatures, PAPER_BINS, |t| likelihood(case, t).map_err(Wrapped))
        .map_err(|Wrapped(mismatch)| mismatch)?;
    for (field, pair, value) in
        [("min_ece", chosen.by_ece, chosen.by_ece.ece), ("min_mce", chosen.by_mce, chosen.by_mce.mce)]
    {
        let wanted = case.part(field)?;
        let (least, next) = (wanted.number("value")?, wanted.number("next_value")?);
        compare.close(field, &[value], &[least], TOLERANCE)?;
        let chosen = [wanted.number("likelihood")?, wanted.number("second")?];
        let at = |[i, j]: [usize; 2]| [temperatures.get(i).copied(), temperatures.get(j).copied()];
        let index: [usize; 2] = wanted.counts("index")?.try_into().map_err(|_| wanted.unknown("index"))?;
        if at(index) != chosen.map(Some) {
            return Err(wanted.unknown("index"));
        }
        // Which of two pairs is chosen is rounding where their values differ by no more than that.
        if next - least > TOLERANCE {
            compare.close(field, &[pair.t1, pair.t2], &chosen, TOLERANCE)?;
        }
    }
    let first = temperatures.first().copied().ok_or(Mismatch::Missing { field: "temperatures".into() })?;
    let at = |t1: f64, t2: f64| -> Result<Reliability, Mismatch> {
        let sharpened = likelihood(case, t1)?.sharpened(t2).map_err(refused)?;
        Reliability::new(&sharpened, PAPER_BINS).map_err(refused)
    };
    for (ece, mce, pair) in [
        ("ece_row_0", "mce_row_0", (|first, t| (first, t)) as fn(f64, f64) -> (f64, f64)),
        ("ece_column_0", "mce_column_0", |first, t| (t, first)),
    ] {
        let measured: Vec<Reliability> = temperatures
            .iter()
            .map(|&t| {
                let (t1, t2) = pair(first, t);
                at(t1, t2)
            })
            .collect::<Result<_, _>>()?;
        let eces: Vec<f64> = measured.iter().map(Reliability::ece).collect();
        let mces: Vec<f64> = measured.iter().map(Reliability::mce).collect();
        compare.close(ece, &eces, &case.values(ece)?, TOLERANCE)?;
        compare.close(mce, &mces, &case.values(mce)?, TOLERANCE)?;
    }
    Ok(compare)
}

/// So that an error of the grid and one of a case have one type.
struct Wrapped(Mismatch);

impl From<siskin_calib::Error> for Wrapped {
    fn from(error: siskin_calib::Error) -> Self {
        Wrapped(refused(error))
    }
}

/// The released iteration stops before the minimum: its values are compared where it stopped, and our minimum is no higher.
fn temperature(case: &Case<'_>) -> Result<Comparison, Mismatch> {
    let mut compare = Comparison::default();
    let there = softmax(case)?;
    compare.close("nll", &[nll(&there)], &[case.number("nll")?], TOLERANCE)?;
    let ece = Reliability::new(&there, PAPER_BINS).map_err(refused)?.ece();
    compare.close("ece", &[ece], &[case.number("ece")?], TOLERANCE)?;
    case.for_information(&["iterations", "lr"]);
    // A negative temperature turns the order of the classes round, which no temperature of ours does.
    if case.number("temperature")? < 0.0 {
        return Ok(compare);
    }
    let way = case.count("way")?;
    let ours = Temperature::fit(&logits(case)?, &case.counts("labels")?, way).map_err(refused)?;
    let values = logits(case)?.iter().map(|logit| logit / ours.value).collect();
    let least = nll(&predictions(case, Scores { values, way }.softmax())?);
    let above = (least - case.number("nll")?).max(0.0);
    compare.close("nll at our temperature above theirs", &[above], &[0.0], TOLERANCE)?;
    Ok(compare)
}
