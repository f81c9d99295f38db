//! The paper's table with the paper's figures and ours: Markdown, CSV and a page.

use super::cell_text::{changed, lines};
use super::paper::Measure;
use super::plan::Plan;
use super::state::State;
use crate::atomic;
use crate::compare::Table;
use crate::error::{Result, io};
use crate::plot::{LineChart, Report, ReportBlock, Section, Series};
use std::path::PathBuf;

impl Plan {
    /// Writes the table as `NAME.md`, `NAME.csv` and `NAME.html`; the result is their path without the extension.
    pub fn write_table(&self) -> Result<PathBuf> {
        std::fs::create_dir_all(&self.folder).map_err(io("create", &self.folder))?;
        let states: Vec<State> = self.runs.iter().map(|run| self.state(run)).collect();
        let path = self.folder.join(&self.table.name);
        for (extension, text) in
            [("md", self.markdown(&states)), ("csv", self.csv(&states)), ("html", self.html(&states))]
        {
            atomic::write(&self.folder.join(format!("{}.{extension}", self.table.name)), text.as_bytes())?;
        }
        Ok(path)
    }

    fn heading(&self) -> String {
        let table = self.table;
        format!("{} ({}): {}", table.title, table.label, table.about)
    }

    fn how_to_read(&self) -> String {
        let figures = match self.table.measure {
            Measure::Accuracy => {
                "accuracy in percent, ± standard deviation over groups of test episodes as in the paper, in brackets ± the 95 % \
                 interval over all episodes"
            }
            Measure::Calibration => {
                "ECE / MCE after tuning a temperature on validation episodes, in brackets their 95 % intervals; then the same \
                 without tuning"
            }
        };
        let note = self.table.note.as_deref().map_or(String::new(), |note| format!(" {note}"));
        format!(
            "In a cell: {figures}; the paper's figure; training episodes (batches, for methods that train on batches); the \
             command.{note}"
        )
    }

    /// The table with the lines of a cell joined.
    fn grid(&self, states: &[State], line_end: &str) -> Table {
        let mut head = vec![String::new()];
        head.extend(self.table.columns.iter().map(|column| column.name.clone()));
        let mut rows: Vec<Vec<String>> = self.table.rows.iter().map(|row| vec![row.name.clone()]).collect();
        for (cell, run) in &self.cells {
            rows[cell.row].push(lines(cell, &states[*run]).join(line_end));
        }
        Table { title: self.heading(), head, rows }
    }

    fn markdown(&self, states: &[State]) -> String {
        let mut text = format!("{}\n{}\n", self.grid(states, "<br>").markdown(), self.how_to_read());
        for (title, list) in [(FAILED, self.failures(states)), (CHANGED, self.changes(states))] {
            if !list.is_empty() {
                let items: String = list.iter().map(|(cells, what)| format!("- {cells}: {what}\n")).collect();
                text += &format!("\n{title}:\n\n{items}");
            }
        }
        text
    }

    fn html(&self, states: &[State]) -> String {
        let grid = self.grid(states, "\n").block();
        let mut sections = vec![Section {
            heading: self.heading(),
            blocks: vec![grid, ReportBlock::Text(self.how_to_read())],
        }];
        if self.table.name == "steps" {
            let chart = ReportBlock::Chart { svg: self.chart(states).svg(), caption: String::new() };
            sections.push(Section { heading: "Our accuracy against steps".into(), blocks: vec![chart] });
        }
        for (heading, list) in [(FAILED, self.failures(states)), (CHANGED, self.changes(states))] {
            if !list.is_empty() {
                let lines: Vec<String> =
                    list.iter().map(|(cells, what)| format!("{cells}: {what}")).collect();
                let blocks = vec![ReportBlock::Text(lines.join("\n"))];
                sections.push(Section { heading: heading.into(), blocks });
            }
        }
        let finished = states.iter().filter(|state| matches!(state, State::Finished(_))).count();
        let subtitle = format!("{finished} of {} runs are finished.", states.len());
        Report { title: format!("The paper's {}", self.table.title), subtitle, sections }.html()
    }

    /// Failed runs with their cells, and why.
    fn failures(&self, states: &[State]) -> Vec<(String, String)> {
        self.grouped(states, |state| match state {
            State::Failed { why } => Some(why.clone()),
            _ => None,
        })
    }

    /// Cells whose settings are not the paper's, and which.
    fn changes(&self, states: &[State]) -> Vec<(String, String)> {
        self.grouped(states, |state| match state {
            State::Finished(finished) => Some(changed(finished)).filter(|changed| !changed.is_empty()),
            _ => None,
        })
    }

    /// The cells of which `of` says the same, together.
    fn grouped(&self, states: &[State], of: impl Fn(&State) -> Option<String>) -> Vec<(String, String)> {
        let mut groups: Vec<(String, String)> = Vec::new();
        for (cell, run) in &self.cells {
            let Some(what) = of(&states[*run]) else { continue };
            match groups.iter_mut().find(|(_, other)| *other == what) {
                Some((cells, _)) => *cells += &format!(", {}", cell.name),
                None => groups.push((cell.name.clone(), what)),
            }
        }
        groups
    }

    /// Our accuracy over the rows, which are numbers of steps.
    fn chart(&self, states: &[State]) -> LineChart {
        let series = self.table.columns.iter().enumerate().map(|(column, named)| {
            let own = self.cells.iter().filter(|(cell, _)| cell.column == column);
            let points: Vec<(f64, f64, f64)> = own
                .filter_map(|(cell, run)| match &states[*run] {
                    State::Finished(f) => {
                        Some(((cell.row + 1) as f64, f.row.over_groups.mean, f.row.over_groups.spread))
                    }
                    _ => None,
                })
                .collect();
            Series {
                name: named.name.clone(),
                points: points.iter().map(|p| (p.0, p.1)).collect(),
                spread: points.iter().map(|p| p.2).collect(),
            }
        });
        LineChart {
            title: String::new(),
            x_name: "steps".into(),
            y_name: "accuracy".into(),
            series: series.filter(|series| !series.points.is_empty()).collect(),
        }
    }
}

const FAILED: &str = "What failed";
const CHANGED: &str = "Not as in the paper's configs";
