//! The tables of a comparison: as text, Markdown and CSV.

use super::rows::{Calibrations, Difference, Row};
use super::{Comparison, Failure};
use crate::plot::ReportBlock;

/// A titled table of cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Above the table.
    pub title: String,
    /// Names of the columns; the first column has the method.
    pub head: Vec<String>,
    /// One row per method.
    pub rows: Vec<Vec<String>>,
}

impl Comparison {
    /// Accuracy, calibration as predicted, calibration after tuning.
    pub fn tables(&self) -> [Table; 3] {
        let reference = &self.reference;
        let mut accuracy = Table {
            title: format!("Accuracy (%), {}", self.what),
            head: strings(&[
                "method",
                "mean ± std of groups",
                "± 95 % of episodes",
                &format!("difference to {reference} ± 95 %"),
            ]),
            rows: self.rows.iter().map(accuracy_cells).collect(),
        };
        if self.rows.iter().any(|row| row.extra_memory_mib.is_some()) {
            accuracy.head.push("memory beside the model, MiB".into());
            for (cells, row) in accuracy.rows.iter_mut().zip(&self.rows) {
                cells.push(row.extra_memory_mib.map_or("–".into(), |mib| format!("{mib:.1}")));
            }
        }
        let calibration = |title: String, part: fn(&Row) -> (String, &Calibrations)| Table {
            title,
            head: strings(&[
                "method",
                "ECE",
                "MCE",
                "NLL",
                "Brier",
                &format!("ECE − {reference} [95 %]"),
                &format!("MCE − {reference} [95 %]"),
                &format!("NLL − {reference} [95 %]"),
            ]),
            rows: self.rows.iter().map(|row| calibration_cells(part(row))).collect(),
        };
        [
            accuracy,
            calibration("Calibration, probabilities as predicted".into(), |row| (row.name.clone(), &row.raw)),
            calibration("Calibration, temperature T tuned on validation episodes".into(), |row| {
                (format!("{} (T = {:.3})", row.name, row.temperature), &row.tuned)
            }),
        ]
    }

    /// All tables and failures for a terminal.
    pub fn text(&self) -> String {
        let tables: Vec<String> = self.tables().iter().map(Table::text).collect();
        format!("{}{}", tables.join("\n"), failures(&self.failures, "\n", ""))
    }

    /// All tables and failures in Markdown.
    pub fn markdown(&self) -> String {
        let tables: Vec<String> = self.tables().iter().map(Table::markdown).collect();
        format!("{}{}", tables.join("\n"), failures(&self.failures, "\n", "- "))
    }

    /// Every figure at full precision, one line per method.
    pub fn csv(&self) -> String {
        let mut lines = vec![CSV_HEAD.join(",")];
        for row in &self.rows {
            let mut cells = vec![quoted(&row.name), row.trained_episodes.to_string()];
            let mut push = |x: Option<f64>| cells.push(x.map_or(String::new(), |x| x.to_string()));
            push(Some(row.over_groups.mean));
            push(Some(row.over_groups.spread));
            push(Some(row.over_episodes.spread));
            push(row.difference.map(|d| d.mean));
            push(row.difference.map(|d| d.spread));
            push(row.extra_memory_mib);
            push(Some(row.temperature));
            for part in [&row.raw, &row.tuned] {
                let (m, i) = (&part.measures, &part.intervals);
                let d = part.difference;
                for (value, own, to) in [
                    (m.ece, i.ece, d.map(|d| d.ece)),
                    (m.mce, i.mce, d.map(|d| d.mce)),
                    (m.nll, i.nll, d.map(|d| d.nll)),
                    (m.brier, i.brier, d.map(|d| d.brier)),
                ] {
                    push(Some(value));
                    push(Some(own.low));
                    push(Some(own.high));
                    push(to.map(|d| d.value));
                    push(to.map(|d| d.interval.low));
                    push(to.map(|d| d.interval.high));
                }
            }
            lines.push(cells.join(","));
        }
        lines.join("\n") + "\n"
    }
}

/// The columns of [`Comparison::csv`]: the first nine, then six of each measure, as predicted and tuned.
static CSV_HEAD: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
    let mut head = strings(&[
        "method",
        "trained_episodes",
        "accuracy",
        "accuracy_std_of_groups",
        "accuracy_95",
        "accuracy_difference",
        "accuracy_difference_95",
        "extra_memory_mib",
        "temperature",
    ]);
    for part in ["raw", "tuned"] {
        for measure in ["ece", "mce", "nll", "brier"] {
            for figure in ["", "_low", "_high", "_difference", "_difference_low", "_difference_high"] {
                head.push(format!("{part}_{measure}{figure}"));
            }
        }
    }
    head
});

impl Table {
    /// Columns padded with blanks; the first to the left, the others to the right.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let line = |row: &Vec<String>| {
            let cells = row.iter().enumerate().map(|(i, cell)| match i {
                0 => format!("{cell:<0$}", width(0)),
                _ => format!("{cell:>0$}", width(i)),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
        };
        let rows: String = self.rows.iter().map(line).collect();
        format!("{}\n{}{rows}", self.title, line(&self.head))
    }

    /// A Markdown table below its title.
    pub fn markdown(&self) -> String {
        let line = |row: &[String]| {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule: Vec<&str> = (0..self.head.len()).map(|i| if i == 0 { "---" } else { "---:" }).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("**{}**\n\n{}| {} |\n{rows}", self.title, line(&self.head), rule.join(" | "))
    }

    /// As part of a page.
    pub(crate) fn block(&self) -> ReportBlock {
        ReportBlock::Table { head: self.head.clone(), rows: self.rows.clone() }
    }
}

fn accuracy_cells(row: &Row) -> Vec<String> {
    let percent = |x: f64| format!("{:.2}", 100.0 * x);
    let difference = match row.difference {
        Some(d) => format!("{:+.2} ± {}", 100.0 * d.mean, percent(d.spread)),
        None => "–".into(),
    };
    // One batch has no spread.
    let spread = match row.over_groups.count {
        1 => String::new(),
        _ => format!(" ± {}", percent(row.over_groups.spread)),
    };
    vec![
        row.name.clone(),
        format!("{}{spread}", percent(row.over_groups.mean)),
        format!("± {}", percent(row.over_episodes.spread)),
        difference,
    ]
}

fn calibration_cells((name, part): (String, &Calibrations)) -> Vec<String> {
    let m = &part.measures;
    let mut cells = vec![name];
    cells.extend([m.ece, m.mce, m.nll, m.brier].map(|x| format!("{x:.3}")));
    let difference = |d: Option<Difference>| match d {
        Some(Difference { value, interval }) => {
            format!("{value:+.3} [{:+.3}, {:+.3}]", interval.low, interval.high)
        }
        None => "–".into(),
    };
    let d = part.difference;
    cells.extend([d.map(|d| d.ece), d.map(|d| d.mce), d.map(|d| d.nll)].map(difference));
    cells
}

fn failures(failures: &[Failure], before: &str, each: &str) -> String {
    if failures.is_empty() {
        return String::new();
    }
    let lines: String = failures.iter().map(|f| format!("{each}{} failed: {}\n", f.name, f.why)).collect();
    format!("{before}{lines}")
}

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|s| s.to_string()).collect()
}

/// A CSV cell: in quotes where it must be.
pub(crate) fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bootstrap::{Interval, Pooled};
    use super::*;
    use siskin_calib::MeanSpread;
    use siskin_calib::Measures;

    fn sample() -> Comparison {
        let measures = Measures {
            accuracy: 0.9,
            nll: 0.3,
            brier: 0.2,
            ece: 0.05,
            mce: 0.125,
            adaptive_ece: 0.05,
            classwise_ece: 0.02,
        };
        let interval = Interval { low: -0.01, high: 0.25 };
        let part = |difference: bool| Calibrations {
            measures,
            intervals: Pooled { ece: interval, mce: interval, nll: interval, brier: interval },
            difference: difference.then(|| {
                let d = Difference { value: 0.0625, interval };
                Pooled { ece: d, mce: d, nll: d, brier: d }
            }),
        };
        let spread = MeanSpread { mean: 0.9012, spread: 0.0034, count: 5 };
        let row = |name: &str, difference: bool| Row {
            name: name.into(),
            trained_episodes: 100,
            over_groups: spread,
            over_episodes: spread,
            difference: difference.then_some(MeanSpread { mean: -0.01, spread: 0.002, count: 5 }),
            extra_memory_mib: difference.then_some(3.25),
            raw: part(difference),
            temperature: 0.5,
            tuned: part(difference),
        };
        Comparison {
            what: "5-way 1-shot on x".into(),
            reference: "a|b".into(),
            rows: vec![row("a|b", false), row("b, \"c\"", true)],
            failures: vec![Failure { name: "d".into(), why: "no such thing".into() }],
        }
    }

    #[test]
    fn text_stands_in_columns_and_says_what_failed() {
        let text = sample().text();
        assert!(text.contains("90.12 ± 0.34"), "{text}");
        assert!(text.contains("-1.00 ± 0.20") && text.contains("+0.062 [-0.010, +0.250]"), "{text}");
        assert!(text.ends_with("d failed: no such thing\n"), "{text}");
        let table = &sample().tables()[0];
        let widths: Vec<usize> = table.text().lines().skip(1).map(|l| l.chars().count()).collect();
        assert!(widths.windows(2).all(|w| w[0] == w[1]), "{widths:?}");
    }

    #[test]
    fn memory_has_a_column_where_a_method_needs_some() {
        let mut sample = sample();
        let table = &sample.tables()[0];
        assert_eq!([&table.rows[0][4], &table.rows[1][4]], ["–", "3.2"]);
        sample.rows[1].extra_memory_mib = None;
        assert_eq!(sample.tables()[0].head.len(), 4);
    }

    #[test]
    fn one_batch_has_no_spread() {
        let mut one = sample();
        one.rows[0].over_groups.count = 1;
        let rows = &one.tables()[0].rows;
        assert_eq!([&rows[0][1], &rows[1][1]], ["90.12", "90.12 ± 0.34"]);
    }

    #[test]
    fn markdown_escapes_bars() {
        let text = sample().markdown();
        assert!(text.contains("| a\\|b | 90.12 ± 0.34 |"), "{text}");
        assert!(text.contains("| --- | ---: |") && text.contains("- d failed: no such thing"), "{text}");
    }

    #[test]
    fn csv_has_as_many_cells_as_names_and_the_full_digits() {
        let csv = sample().csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        let names: Vec<&str> = lines[0].split(',').collect();
        assert_eq!(names.len(), 9 + 48);
        assert_eq!(lines[1].split(',').count(), names.len());
        let second = lines[2].strip_prefix("\"b, \"\"c\"\"\",").unwrap();
        let cells: Vec<&str> = second.split(',').collect();
        assert_eq!(cells.len(), names.len() - 1);
        let at = |name: &str| cells[names.iter().position(|n| *n == name).unwrap() - 1];
        assert_eq!((at("accuracy"), at("accuracy_difference")), ("0.9012", "-0.01"));
        assert_eq!((at("tuned_mce"), at("tuned_brier_difference_high")), ("0.125", "0.25"));
    }
}
