//! The table as CSV: one line a figure, nothing rounded.

use super::cell_text::{changed, figures, measures};
use super::paper::Measure;
use super::plan::Plan;
use super::state::State;
use crate::compare::quoted;

const CSV_HEAD: [&str; 19] = [
    "table",
    "label",
    "cell",
    "row",
    "column",
    "measure",
    "paper",
    "paper_std",
    "ours",
    "ours_std_of_groups",
    "ours_95_low",
    "ours_95_high",
    "episodes",
    "best_at_episode",
    "state",
    "command",
    "model",
    "test",
    "not_as_in_the_paper",
];

impl Plan {
    /// One line a figure.
    pub(super) fn csv(&self, states: &[State]) -> String {
        let mut text = CSV_HEAD.join(",") + "\n";
        for (cell, run) in &self.cells {
            for (place, measure) in measures(self.table.measure).iter().enumerate() {
                let state = &states[*run];
                let finished = match state {
                    State::Finished(finished) => Some(finished.as_ref()),
                    _ => None,
                };
                let ours = finished.map(|finished| figures(self.table.measure, finished).swap_remove(place));
                let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
                let (paper, paper_std) = match (self.table.measure, cell.figures()) {
                    (Measure::Accuracy, Some([mean, std])) => (Some(mean), Some(std)),
                    (Measure::Calibration, Some(pair)) => (Some(pair[place]), None),
                    (_, None) => (None, None),
                };
                let count = |x: Option<u64>| x.map_or(String::new(), |x| x.to_string());
                let line = [
                    self.table.name.clone(),
                    self.table.label.clone(),
                    cell.name.clone(),
                    cell.row_key().into(),
                    cell.column_key().into(),
                    measure.to_string(),
                    number(paper),
                    number(paper_std),
                    number(ours.as_ref().map(|f| f.ours)),
                    number(ours.as_ref().and_then(|f| f.std)),
                    number(ours.as_ref().map(|f| f.interval[0])),
                    number(ours.as_ref().map(|f| f.interval[1])),
                    count(finished.map(|f| f.episodes)),
                    count(finished.map(|f| f.row.trained_episodes)),
                    state.words(),
                    finished.map_or_else(|| self.command(&self.runs[*run]), |f| f.command.clone()),
                    finished.map_or(String::new(), |f| f.model.display().to_string()),
                    finished.map_or(String::new(), |f| f.what.clone()),
                    finished.map_or(String::new(), changed),
                ];
                text += &(line.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n");
            }
        }
        text
    }
}
