//! One generator for all files of `configs/paper`.

use super::cdkt_row::{Cdkt, default_epochs, validate_from};
use super::methods::{Length, METHOD_ROWS, MethodRow};
use super::paper::{Cell, table, tables};
use super::scenario::Scenario;
use crate::error::Result;

/// A config file of `configs/paper`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperConfig {
    /// Below `configs/paper`, without the extension: `table1/cub-1shot-dkt`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The rows of Table 1 once more, by the predictive likelihood as the paper's text has it.
const EQ15: &str = "table1-pl-eq15";
const EQ15_HEAD: &str = "Table 1, but by the predictive likelihood of the paper's Eq. (15a) on the support of each class, which the \
     released code does not compute: see docs/fidelity.md. The row by the released code is the file of the same name in table1.";

/// Every config file, Table 1 first.
pub fn configs() -> Result<Vec<PaperConfig>> {
    let mut files: Vec<Parts> = Vec::new();
    for cell in tables().iter().flat_map(|table| table.cells()) {
        // Table 2 has the runs of Table 1.
        if files.iter().all(|file| file.path != cell.path()) {
            files.push(parts(cell.path(), heading(&cell.path()), &cell.name, false));
        }
    }
    for cell in table("table1")?.cells().iter().filter(|cell| cell.row_key().starts_with("pl-")) {
        files.push(parts(format!("{EQ15}/{}", cell.name), EQ15_HEAD.into(), &cell.name, true));
    }
    Ok(files.iter().map(|file| file.written(&files)).collect())
}

/// The tables that a config belongs to.
fn heading(path: &str) -> String {
    let has = |cells: Vec<Cell>| cells.iter().any(|cell| cell.path() == path);
    let titles: Vec<&str> =
        tables().iter().filter(|table| has(table.cells())).map(|table| table.title.as_str()).collect();
    titles.join(" and ")
}

/// A file before it is known which others are the same run.
struct Parts {
    path: String,
    head: String,
    /// Data, shot, method and length.
    what: String,
    notes: Vec<String>,
    body: String,
}

impl Parts {
    fn written(&self, all: &[Parts]) -> PaperConfig {
        let same = all.iter().filter(|other| other.path != self.path && other.body == self.body);
        let mut same: Vec<String> = same.map(|other| format!("{}.toml", other.path)).collect();
        same.sort();
        let mut lines = comment(&self.head) + &comment(&self.what);
        if let Some(last) = same.pop() {
            let list = if same.is_empty() { last } else { format!("{} and {last}", same.join(", ")) };
            lines += &comment(&format!("The same run as {list}."));
        }
        lines.extend(self.notes.iter().map(|note| comment(note)));
        PaperConfig { path: self.path.clone(), text: format!("{lines}\n{}", self.body) }
    }
}

/// A comment of lines of at most 120 characters.
fn comment(text: &str) -> String {
    let mut lines = String::from("#");
    let mut width = 1;
    for word in text.split_whitespace() {
        if width + 1 + word.len() > 120 {
            lines += "\n#";
            width = 1;
        }
        lines += " ";
        lines += word;
        width += 1 + word.len();
    }
    lines + "\n"
}

/// The file of a cell: its name says what it is. `eq15`: as the paper's text has the predictive likelihood.
fn parts(path: String, head: String, name: &str, eq15: bool) -> Parts {
    let (first, rest) = name.split_once('-').expect("a cell's name begins with its data");
    let scenario = Scenario::named(first).expect("paper.toml names data that exist");
    let (shot, row) = match rest.split_once("shot-") {
        Some((shot, row)) => (shot.parse().expect("paper.toml has numbers of shots"), row),
        None => (1, rest),
    };
    let place = format!("{}, 5-way {shot}-shot", scenario.title());
    let (method, title, own, mut notes, train) = match METHOD_ROWS.iter().find(|other| other.key == row) {
        Some(other) => {
            let (length, train) = method_length(other, scenario, shot);
            let title = format!("{place}, {}: {length}.", method_title(other));
            let table = match other.settings {
                "" => String::new(),
                settings => format!("\n[{}]\n{settings}", other.method),
            };
            (format!("method = \"{}\"\n\n", other.method), title, table, Vec::new(), train)
        }
        None => {
            let cdkt = Cdkt::named(row, scenario, shot, eq15);
            let epochs = cdkt.epochs();
            let title =
                format!("{place}, {}, tau = {}: {epochs} epochs of 100 episodes.", cdkt.loss(), cdkt.tau);
            let train = format!(
                "episodes = {}\nkernel_learning_rate = 1e-4\nvalidate_every = 100\nvalidate_from = {}\n",
                100 * epochs,
                validate_from(epochs)
            );
            (String::new(), title, format!("\n[cdkt]\n{}", cdkt.settings()), cdkt.notes(), train)
        }
    };
    notes.extend(scenario.notes().map(String::from));
    let body = format!(
        "{method}[data]\n{}image_size = 84\naugment = true\n\n[episode]\nshot = {shot}\n\n[backbone]\nname = \"conv4\"\n\
         {own}\n[train]\n{train}",
        scenario.data()
    );
    Parts { path, head, what: title, notes, body }
}

fn method_title(row: &MethodRow) -> String {
    let of_paper = tables()[0].rows.iter().find(|paper| paper.key == row.key);
    let name = of_paper.map_or(row.key, |paper| paper.name.as_str());
    match row.length {
        Length::Epochs { tasks } if tasks > 1 => format!("{name}, {tasks} tasks per step"),
        _ => name.into(),
    }
}

/// The length in words and the lines of `[train]`.
fn method_length(row: &MethodRow, scenario: Scenario, shot: u64) -> (String, String) {
    match row.length {
        Length::Passes => {
            let (passes, batches) = scenario.passes();
            let words = format!(
                "{passes} passes over the base classes, about {batches} batches of 16 images each; no validation"
            );
            (words, format!("episodes = {}\nvalidate_every = 0\nsave_every = 1000\n", passes * batches))
        }
        Length::Epochs { tasks } => {
            let epochs = tasks * default_epochs(shot);
            let mut train = format!("episodes = {}\n", 100 * epochs);
            if tasks > 1 {
                train += &format!("episodes_per_step = {tasks}\n");
            }
            if let Some(rate) = row.kernel_rate {
                train += &format!("kernel_learning_rate = {rate}\n");
            }
            (
                format!("{epochs} epochs of 100 episodes, validated after each"),
                train + "validate_every = 100\n",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    /// `siskin reproduce --write-configs configs/paper` writes what this test compares.
    #[test]
    fn the_files_of_the_repository_are_those_of_the_generator() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/paper");
        let mut found = BTreeMap::new();
        for folder in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
            for file in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                let part = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
                // `cub-1shot-tau0.5.toml`: only the last dot begins the extension.
                let name = format!("{}/{}", part(&folder), part(&file));
                found.insert(name, std::fs::read_to_string(file).unwrap());
            }
        }
        let generated: BTreeMap<_, _> =
            configs().unwrap().into_iter().map(|config| (config.path, config.text)).collect();
        for (path, text) in &generated {
            assert_eq!(
                found.get(path),
                Some(text),
                "{path}: see CONTRIBUTING.md on how to write the configs"
            );
        }
        let extra: Vec<&String> = found.keys().filter(|path| !generated.contains_key(*path)).collect();
        assert!(extra.is_empty(), "no cell of the paper: {extra:?}");
    }

    #[test]
    fn comments_are_at_most_120_characters_wide() {
        for line in configs().unwrap().iter().flat_map(|config| config.text.lines()) {
            assert!(line.chars().count() <= 120, "{line}");
        }
    }
}
