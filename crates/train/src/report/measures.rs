//! The measures of a test: a table, and what each means.

use crate::plot::ReportBlock;
use siskin_calib::Measures;

/// Name and meaning of each column of [`table`], as in docs/glossary.md.
const MEANINGS: [(&str, &str); 5] = [
    ("accuracy", "how often the most probable class is the right one"),
    ("ECE", "how far, on average, the confidence lies from how often it is right; 0 is honest"),
    ("MCE", "the same for the worst group of answers; few answers make it large by chance"),
    ("NLL", "surprise: small where the right class got a high probability; 0 is certainty that was right"),
    ("Brier", "squared distance between the probabilities and the truth; 0 is best, 2 is certain and wrong"),
];

/// A row of [`table`].
pub(crate) fn row(name: &str, m: &Measures) -> Vec<String> {
    let values = [m.ece, m.mce, m.nll, m.brier].map(|x| format!("{x:.3}"));
    [vec![name.to_string(), format!("{:.2} %", 100.0 * m.accuracy)], values.to_vec()].concat()
}

/// Measures as a table.
pub(crate) fn table(rows: Vec<Vec<String>>) -> ReportBlock {
    let head = std::iter::once(String::new()).chain(MEANINGS.iter().map(|(name, _)| name.to_string()));
    ReportBlock::Table { head: head.collect(), rows }
}

/// One plain sentence a measure.
pub(crate) fn words() -> ReportBlock {
    ReportBlock::Words(MEANINGS.map(|(name, meaning)| (name.to_string(), meaning.to_string())).to_vec())
}

#[cfg(test)]
mod tests {
    use super::MEANINGS;

    #[test]
    fn the_glossary_says_the_same() {
        let glossary = include_str!("../../../../docs/glossary.md");
        for (name, meaning) in MEANINGS {
            assert!(glossary.contains(&format!("| {meaning} |")), "{name}: {meaning}");
        }
    }
}
