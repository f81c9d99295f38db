//! What stands in a cell: our figures beside the paper's.

use super::paper::{Cell, Measure};
use super::record::Finished;
use super::state::State;

/// Our figures of one measure in a cell.
pub(super) struct Figure {
    /// The figure.
    pub ours: f64,
    /// Standard deviation over groups of episodes, where the paper has one.
    pub std: Option<f64>,
    /// 95 % interval over episodes.
    pub interval: [f64; 2],
}

/// The names of [`figures`].
pub(super) fn measures(of: Measure) -> &'static [&'static str] {
    match of {
        Measure::Accuracy => &["accuracy"],
        Measure::Calibration => &["tuned_ece", "tuned_mce", "raw_ece", "raw_mce"],
    }
}

/// Our figures, in the units of the paper.
pub(super) fn figures(of: Measure, finished: &Finished) -> Vec<Figure> {
    let row = &finished.row;
    match of {
        Measure::Accuracy => {
            let (groups, all) = (row.over_groups, row.over_episodes);
            let interval = [100.0 * (all.mean - all.spread), 100.0 * (all.mean + all.spread)];
            // One group has no spread.
            let std = (groups.count > 1).then_some(100.0 * groups.spread);
            vec![Figure { ours: 100.0 * groups.mean, std, interval }]
        }
        Measure::Calibration => {
            let values = [&row.tuned, &row.raw].map(|part| {
                let (m, i) = (&part.measures, &part.intervals);
                [(m.ece, [i.ece.low, i.ece.high]), (m.mce, [i.mce.low, i.mce.high])]
            });
            let all = values.into_iter().flatten();
            all.map(|(ours, interval)| Figure { ours, std: None, interval }).collect()
        }
    }
}

/// The lines of a cell.
pub(super) fn lines(cell: &Cell, state: &State) -> Vec<String> {
    let measure = cell.table.measure;
    let paper = match (measure, cell.figures()) {
        (Measure::Accuracy, Some([mean, std])) => format!("paper {mean:.2} ± {std:.2}"),
        (Measure::Calibration, Some([ece, mce])) => format!("paper {ece:.3} / {mce:.3}"),
        (_, None) => "paper: no figure".into(),
    };
    let finished = match state {
        State::Finished(finished) => finished,
        // The reason stands below the table.
        State::Failed { .. } => return vec!["failed".into(), paper],
        other => return vec![other.words(), paper],
    };
    let ours = figures(measure, finished);
    let mut lines = match measure {
        Measure::Accuracy => {
            let Figure { ours, std, interval, .. } = &ours[0];
            let std = std.map_or(String::new(), |std| format!(" ± {std:.2}"));
            vec![format!("{ours:.2}{std} [± {:.2}]", (interval[1] - interval[0]) / 2.0)]
        }
        Measure::Calibration => {
            let pair = |pair: &[Figure]| {
                let one = |f: &Figure| format!("{:.3} [{:.3}, {:.3}]", f.ours, f.interval[0], f.interval[1]);
                format!("{} / {}", one(&pair[0]), one(&pair[1]))
            };
            vec![pair(&ours[..2]), format!("untuned {}", pair(&ours[2..]))]
        }
    };
    let (episodes, best) = (finished.episodes, finished.row.trained_episodes);
    let note = if best == episodes { String::new() } else { format!(", model of {best}") };
    lines.extend([paper, format!("{episodes} episodes{note}"), format!("`{}`", finished.command)]);
    lines
}

/// The keys that are not as in the paper's config.
pub(super) fn changed(finished: &Finished) -> String {
    let words = finished.changed.iter().map(|c| format!("{} is {} (paper: {})", c.key, c.found, c.wanted));
    words.collect::<Vec<_>>().join(", ")
}
