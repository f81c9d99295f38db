//! The plan and the results on a terminal.

use siskin_train::config::{Config, TrainConfig};
use siskin_train::reproduce::{Cell, Measure, Plan, State, Timing};

/// Prints what is to be done and what it costs. `timing`: whether to time this machine.
pub(super) fn plan(plan: &Plan, timing: bool) -> anyhow::Result<()> {
    let wanted: Vec<_> = plan.wanted().collect();
    say!("{} ({}), {} runs", plan.table.title, plan.table.label, wanted.len());
    say!("  {:34} {:>10} {:>10} {:>8} {:>10}  state", "run", "episodes", "ms each", "hours", "CPU hours");
    let (mut episodes, mut wall, mut cpu) = (0, 0.0, 0.0);
    let mut timed: Vec<(Config, Timing)> = Vec::new();
    for run in wanted {
        let state = match plan.is_tested(run) {
            Ok(true) => "finished".to_string(),
            // Figures of another test, of other settings or other weights do not count.
            Ok(false) => match plan.state(run) {
                State::Finished(_) => "to be tested again".into(),
                other => other.words(),
            },
            Err(error) => error.to_string(),
        };
        // What cannot be read is told when its turn comes.
        let left = plan.episodes_left(run).unwrap_or(run.config.train.episodes);
        episodes += left;
        let [mut each, mut hours, mut cpu_hours] = [const { String::new() }; 3];
        if timing && left > 0 {
            let timing = timing_of(&mut timed, &run.config)?;
            let cost = plan.cost(run, &timing)?;
            (wall, cpu) = (wall + cost.wall, cpu + cost.cpu);
            each = format!("{:.1}", 1e3 * timing.wall.train);
            hours = format!("{:.2}", cost.wall / 3600.0);
            cpu_hours = format!("{:.2}", cost.cpu / 3600.0);
        }
        say!("  {:34} {left:>10} {each:>10} {hours:>8} {cpu_hours:>10}  {state}", run.name);
    }
    let cost = match timing {
        true => format!(
            ", about {:.2} hours on this machine as busy as it is now, {:.2} CPU hours; {} threads, validations and tests included",
            wall / 3600.0,
            cpu / 3600.0,
            rayon::current_num_threads()
        ),
        false => String::new(),
    };
    say!("To train: {episodes} episodes{cost}.");
    Ok(())
}

/// The timing of a config. Length and data do not change it.
fn timing_of(timed: &mut Vec<(Config, Timing)>, config: &Config) -> anyhow::Result<Timing> {
    let train = TrainConfig { episodes_per_step: config.train.episodes_per_step, ..TrainConfig::default() };
    let mut key = Config { train, ..config.clone() };
    (key.data.train, key.data.transfer) = (String::new(), None);
    if let Some((_, timing)) = timed.iter().find(|(other, _)| *other == key) {
        return Ok(*timing);
    }
    let timing = Timing::of(config)?;
    timed.push((key, timing));
    Ok(timing)
}

/// Prints the cells that were asked for.
pub(super) fn results(plan: &Plan) {
    for (cell, run) in &plan.cells {
        let run = &plan.runs[*run];
        if run.wanted {
            say!("  {:34} {}", cell.name, result(cell, &plan.state(run)));
        }
    }
}

fn result(cell: &Cell, state: &State) -> String {
    let State::Finished(finished) = state else { return state.words() };
    let row = &finished.row;
    let (ours, paper) = match cell.table.measure {
        Measure::Accuracy => (
            format!("{:.2} ± {:.2} %", 100.0 * row.over_groups.mean, 100.0 * row.over_groups.spread),
            cell.figures().map(|[mean, std]| format!("{mean:.2} ± {std:.2} %")),
        ),
        Measure::Calibration => {
            let m = &row.tuned.measures;
            (
                format!("ECE {:.3}, MCE {:.3}", m.ece, m.mce),
                cell.figures().map(|[ece, mce]| format!("ECE {ece:.3}, MCE {mce:.3}")),
            )
        }
    };
    let paper = paper.map_or("no figure".into(), |paper| paper);
    format!("{ours} (paper: {paper}), {} episodes", finished.episodes)
}
