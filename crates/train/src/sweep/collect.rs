//! The results of a sweep as one table: a line for each setting, over its seeds.

use super::work::Record;
use super::{Sweep, SweepRun, student};
use crate::atomic;
use crate::compare::{Interval, Row, quoted};
use crate::error::{Error, Result};

/// The setting whose values are repetitions of the same run.
const SEED: &str = "seed";

/// A figure of a run with its interval over test episodes.
struct Figure {
    name: &'static str,
    of: fn(&Row) -> (f64, Interval),
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "accuracy",
        of: |row| {
            let all = row.over_episodes;
            (all.mean, Interval { low: all.mean - all.spread, high: all.mean + all.spread })
        },
    },
    Figure { name: "raw_ece", of: |row| (row.raw.measures.ece, row.raw.intervals.ece) },
    Figure { name: "raw_nll", of: |row| (row.raw.measures.nll, row.raw.intervals.nll) },
    Figure { name: "tuned_ece", of: |row| (row.tuned.measures.ece, row.tuned.intervals.ece) },
    Figure { name: "tuned_nll", of: |row| (row.tuned.measures.nll, row.tuned.intervals.nll) },
];

/// Runs that differ in nothing but the seed.
struct Group {
    settings: Vec<(String, String)>,
    rows: Vec<Row>,
    runs: usize,
}

impl Group {
    /// Mean and 95 % interval: over seeds, or, of one seed, over its test episodes.
    fn figure(&self, figure: &Figure) -> Option<(f64, Interval)> {
        let values: Vec<f64> = self.rows.iter().map(|row| (figure.of)(row).0).collect();
        match student::interval(&values) {
            Some((mean, half)) => Some((mean, Interval { low: mean - half, high: mean + half })),
            None => self.rows.first().map(figure.of),
        }
    }

    fn interval_over(&self) -> &'static str {
        match self.rows.len() {
            0 => "",
            1 => "episodes",
            _ => "seeds",
        }
    }
}

impl Sweep {
    /// Writes `table.csv`, `table.md` and `runs.csv` of what is finished, and returns the text of `table.md`.
    pub fn collect(&self) -> Result<String> {
        let mut rows = Vec::new();
        for run in &self.runs {
            rows.push(match self.record(run)? {
                Some(Record::Finished { row, .. }) => Some(*row),
                _ => None,
            });
        }
        let keys = self.keys();
        let groups = self.groups(&rows);
        let markdown = markdown(&keys, &groups);
        for (name, text) in [
            ("table.csv", csv(&keys, &groups)),
            ("table.md", markdown.clone()),
            ("runs.csv", self.runs_csv(&rows)),
        ] {
            atomic::write(&self.folder.join(name), text.as_bytes())?;
        }
        if rows.iter().all(Option::is_none) {
            return Err(Error::Run("no run is finished yet: the table has no figures".into()));
        }
        Ok(markdown)
    }

    /// All keys of the table but the seed, in the order in which they are first named.
    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for (key, _) in self.runs.iter().flat_map(|run| &run.settings) {
            if key != SEED && !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }

    fn groups(&self, rows: &[Option<Row>]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (run, row) in self.runs.iter().zip(rows) {
            let settings: Vec<_> = run.settings.iter().filter(|(key, _)| key != SEED).cloned().collect();
            let place = groups.iter().position(|group| group.settings == settings).unwrap_or_else(|| {
                groups.push(Group { settings, rows: Vec::new(), runs: 0 });
                groups.len() - 1
            });
            groups[place].runs += 1;
            groups[place].rows.extend(row.clone());
        }
        groups
    }

    /// One line per run.
    fn runs_csv(&self, rows: &[Option<Row>]) -> String {
        let mut keys = self.keys();
        keys.push(SEED.into());
        let mut text = line(
            ["run".to_string()].into_iter().chain(keys.iter().cloned()).chain(heads("trained_episodes")),
        );
        for (run, row) in self.runs.iter().zip(rows) {
            let SweepRun { name, settings } = run;
            let figures = FIGURES.iter().flat_map(|figure| cells(row.as_ref().map(figure.of)));
            let episodes = row.as_ref().map_or(String::new(), |row| row.trained_episodes.to_string());
            text += &line(
                [name.clone()]
                    .into_iter()
                    .chain(keys.iter().map(|key| value(settings, key)))
                    .chain([episodes])
                    .chain(figures),
            );
        }
        text
    }
}

/// The value of a setting, or nothing.
fn value(settings: &[(String, String)], key: &str) -> String {
    settings.iter().find(|(own, _)| own == key).map_or(String::new(), |(_, value)| value.clone())
}

fn heads(first: &str) -> impl Iterator<Item = String> {
    let figures =
        FIGURES.iter().flat_map(|f| [f.name.into(), format!("{}_low", f.name), format!("{}_high", f.name)]);
    [first.to_string()].into_iter().chain(figures)
}

/// A figure and its interval, nothing rounded.
fn cells(figure: Option<(f64, Interval)>) -> [String; 3] {
    figure.map_or_else(Default::default, |(x, i)| [x.to_string(), i.low.to_string(), i.high.to_string()])
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| quoted(&cell)).collect::<Vec<_>>().join(",") + "\n"
}

fn csv(keys: &[String], groups: &[Group]) -> String {
    let mut text = line(
        keys.iter().cloned().chain(["runs".into()]).chain(heads("finished")).chain(["interval_over".into()]),
    );
    for group in groups {
        let figures = FIGURES.iter().flat_map(|figure| cells(group.figure(figure)));
        text += &line(
            keys.iter()
                .map(|key| value(&group.settings, key))
                .chain([group.runs.to_string(), group.rows.len().to_string()])
                .chain(figures)
                .chain([group.interval_over().into()]),
        );
    }
    text
}

fn markdown(keys: &[String], groups: &[Group]) -> String {
    let heads: Vec<&str> = keys
        .iter()
        .map(String::as_str)
        .chain(["runs", "accuracy", "raw ECE", "raw NLL", "tuned ECE", "tuned NLL"])
        .collect();
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), " --- |".repeat(heads.len()));
    for group in groups {
        let mut cells: Vec<String> = keys.iter().map(|key| value(&group.settings, key)).collect();
        cells.push(match group.rows.len() == group.runs {
            true => group.runs.to_string(),
            false => format!("{} of {}", group.rows.len(), group.runs),
        });
        cells.extend(FIGURES.iter().map(|figure| match (figure.name, group.figure(figure)) {
            (_, None) => "not run".into(),
            ("accuracy", Some((x, i))) => format!("{:.2} ± {:.2} %", 100.0 * x, 50.0 * (i.high - i.low)),
            (_, Some((x, i))) => format!("{x:.4} [{:.4}, {:.4}]", i.low, i.high),
        }));
        text +=
            &format!("| {} |\n", cells.iter().map(|c| c.replace('|', "\\|")).collect::<Vec<_>>().join(" | "));
    }
    let over = |over: &str| groups.iter().any(|group| group.interval_over() == over);
    if over("seeds") {
        text += "\n± and [ ]: 95 % intervals over seeds (Student's t).\n";
    }
    if over("episodes") {
        text += "\nOf one seed: 95 % intervals over its test episodes.\n";
    }
    text
}
