//! The runs of a table: which are wanted, by which config, in which folder.

use super::generate::configs;
use super::paper::{Cell, PaperTable};
use crate::compare::{same_test, unfinished};
use crate::config::{Config, TestConfig};
use crate::error::{Error, Result, unknown};
use crate::run::Run;
use siskin_data::Opener;
use siskin_methods::MethodName;
use std::path::{Path, PathBuf};

/// Which runs of a table are wanted, and how.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Columns, rows or cells; none means all.
    pub only: Vec<String>,
    /// Methods or rows; none means all.
    pub methods: Vec<String>,
    /// Most training episodes of a run; none means those of the paper.
    pub budget: Option<u64>,
    /// `key=value` settings of all runs; those of a method are for its runs alone.
    pub set: Vec<String>,
    /// Cells with finished runs or model files from elsewhere.
    pub elsewhere: Vec<(String, PathBuf)>,
    /// Where runs, results and tables are.
    pub out: PathBuf,
}

/// A table as runs.
#[derive(Debug)]
pub struct Plan {
    /// The table.
    pub table: &'static PaperTable,
    /// Where runs, results and tables of this budget are.
    pub folder: PathBuf,
    /// Every run of the table.
    pub runs: Vec<PlannedRun>,
    /// Every cell of the table and the place of its run.
    pub cells: Vec<(Cell, usize)>,
    options: PlanOptions,
}

/// A run of the plan.
#[derive(Debug, Clone)]
pub struct PlannedRun {
    /// The cell it is named by: the first of all tables that has this run.
    pub name: String,
    /// How it is trained and tested.
    pub config: Config,
    /// How the paper trains and tests it.
    pub paper: Config,
    /// Whether it was asked for.
    pub wanted: bool,
    /// A finished run or model file that takes its place.
    pub elsewhere: Option<PathBuf>,
    /// Its run folder.
    pub folder: PathBuf,
}

impl PlannedRun {
    /// What is tested: the run folder, or what takes its place.
    pub fn model(&self) -> &Path {
        self.elsewhere.as_deref().unwrap_or(&self.folder)
    }

    /// The test, with its shape written out.
    pub fn test(&self) -> Result<TestConfig> {
        same_test(&self.config)
    }

    /// The run, started or where it stopped; nothing if it is complete.
    pub fn unfinished(&self, opener: &Opener<'_>) -> Result<Option<Run>> {
        unfinished(&self.folder, &self.config, opener)
    }
}

impl Plan {
    /// The plan of `options`. Names that do not exist and settings without effect are errors.
    pub fn new(table: &'static PaperTable, options: PlanOptions) -> Result<Plan> {
        let files = configs()?;
        let parsed = files.iter().map(|file| Config::parse(&file.text, &[])).collect::<Result<Vec<_>>>()?;
        let folder = match options.budget {
            Some(budget) => options.out.join(format!("budget-{budget}")),
            None => options.out.clone(),
        };
        let (mut runs, mut cells): (Vec<PlannedRun>, Vec<(Cell, usize)>) = (Vec::new(), Vec::new());
        for cell in table.cells() {
            let own = files.iter().position(|file| file.path == cell.path()).expect("each cell has a config");
            // Equal configs are one run, whichever table asks for it.
            let first = parsed.iter().position(|other| *other == parsed[own]).unwrap_or(own);
            let name = files[first].path.rsplit('/').next().unwrap_or_default().to_string();
            let place = match runs.iter().position(|run| run.name == name) {
                Some(place) => place,
                None => {
                    let config = changed(&files[first].text, &parsed[first], &options)?;
                    let (paper, folder) = (parsed[first].clone(), folder.join(&name));
                    runs.push(PlannedRun { name, config, paper, wanted: false, elsewhere: None, folder });
                    runs.len() - 1
                }
            };
            cells.push((cell, place));
        }
        let mut plan = Plan { table, folder, runs, cells, options };
        plan.mark_wanted()?;
        plan.take_elsewhere()?;
        plan.check_settings()?;
        Ok(plan)
    }

    /// The runs that were asked for.
    pub fn wanted(&self) -> impl Iterator<Item = &PlannedRun> {
        self.runs.iter().filter(|run| run.wanted)
    }

    /// The command that makes a run and its cells.
    pub fn command(&self, run: &PlannedRun) -> String {
        let place = self.runs.iter().position(|other| other.name == run.name);
        let cell = self.cells.iter().find(|(_, run)| Some(*run) == place).map_or("", |(cell, _)| &cell.name);
        let mut words = vec!["siskin".into(), "reproduce".into(), self.table.name.clone()];
        words.extend(["--only".into(), cell.into()]);
        if let Some(budget) = self.options.budget {
            words.extend(["--budget".into(), budget.to_string()]);
        }
        let own = self.options.set.iter().filter(|set| is_for(set, &run.paper));
        words.extend(own.flat_map(|set| ["--set".into(), shell_word(set)]));
        if let Some(path) = &run.elsewhere {
            words.extend(["--run".into(), shell_word(&format!("{cell}={}", path.display()))]);
        }
        if self.options.out != Path::new(Plan::OUT) {
            words.extend(["--out".into(), shell_word(&self.options.out.display().to_string())]);
        }
        words.join(" ")
    }

    /// Where runs are if nothing else is said.
    pub const OUT: &'static str = "runs/paper";

    fn mark_wanted(&mut self) -> Result<()> {
        let cells: Vec<&Cell> = self.cells.iter().map(|(cell, _)| cell).collect();
        let columns = self.table.columns.iter().map(|column| column.key.as_str());
        let rows: Vec<&str> = self.table.rows.iter().map(|row| row.key.as_str()).collect();
        let shown: Vec<&str> = columns.chain(rows.iter().copied()).collect();
        let known: Vec<&str> = shown.iter().copied().chain(cells.iter().map(|c| c.name.as_str())).collect();
        check_names("column, row or cell", &self.options.only, &known, &shown)?;
        let mut methods: Vec<&str> = self.runs.iter().map(|run| run.paper.method.name()).collect();
        methods.extend(rows);
        methods.sort_unstable();
        methods.dedup();
        check_names("method or row of this table", &self.options.methods, &methods, &methods)?;
        let matches = |names: &[String], of: &[&str]| {
            names.is_empty() || names.iter().any(|name| of.contains(&name.as_str()))
        };
        let wanted: Vec<usize> = (self.cells.iter())
            .filter(|(cell, run)| {
                let method = self.runs[*run].paper.method.name();
                matches(&self.options.only, &[&cell.name, cell.row_key(), cell.column_key()])
                    && matches(&self.options.methods, &[method, cell.row_key()])
            })
            .map(|(_, run)| *run)
            .collect();
        wanted.into_iter().for_each(|run| self.runs[run].wanted = true);
        if self.wanted().next().is_none() {
            return Err(Error::Run("no cell is in both --only and --methods".into()));
        }
        Ok(())
    }

    fn take_elsewhere(&mut self) -> Result<()> {
        let known: Vec<&str> = self.cells.iter().map(|(cell, _)| cell.name.as_str()).collect();
        let mut given = Vec::new();
        for (name, path) in &self.options.elsewhere {
            let cell = self.cells.iter().find(|(cell, _)| cell.name == *name);
            let (_, run) = cell.ok_or_else(|| unknown("cell", name, &known, &["see --plan"]))?;
            given.push((*run, path.clone()));
        }
        for (run, path) in given {
            (self.runs[run].wanted, self.runs[run].elsewhere) = (true, Some(path));
        }
        Ok(())
    }

    /// A setting of a method that no wanted run has would be passed over.
    fn check_settings(&self) -> Result<()> {
        match self.options.set.iter().find(|set| !self.wanted().any(|run| is_for(set, &run.paper))) {
            Some(set) => {
                Err(Error::Config(format!("--set {set} has no effect: no run asked for is by its method")))
            }
            None => Ok(()),
        }
    }
}

fn check_names(what: &str, names: &[String], known: &[&str], shown: &[&str]) -> Result<()> {
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown(what, name, known, shown)),
        None => Ok(()),
    }
}

/// Whether a setting is for runs by this config: it is no other method's.
fn is_for(set: &str, config: &Config) -> bool {
    let table = set.split(['.', '=']).next().unwrap_or_default().trim();
    table.parse::<MethodName>().is_err() || table == config.method.name()
}

/// The paper's config with settings and within the budget. The share of training in which it is validated stays.
fn changed(text: &str, paper: &Config, options: &PlanOptions) -> Result<Config> {
    let own: Vec<String> = options.set.iter().filter(|set| is_for(set, paper)).cloned().collect();
    let mut config = Config::parse(text, &own)?;
    let whole = config.train.episodes;
    if let Some(budget) = options.budget.filter(|budget| *budget < whole) {
        let share = u128::from(config.train.validate_from) * u128::from(budget) / u128::from(whole);
        config.train.validate_from = u64::try_from(share).unwrap_or(budget);
        config.train.episodes = budget;
    }
    Ok(config)
}

/// A word for a POSIX shell, in quotes where it must be.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./=:,+@%-".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests;
