//! What a person sees while a model is trained: a bar, and a line for whatever is worth one. Where the output goes to a file, a
//! line every half minute stands in for the bar.

use crate::progress_lines::{ProgressLines, duration};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use siskin_methods::StepReport;
use siskin_train::trainer::Event;
use std::collections::VecDeque;
use std::time::Instant;

/// Steps whose mean loss the bar shows.
const RECENT: usize = 100;

/// The bar of one training.
pub(crate) struct TrainingBar {
    bar: ProgressBar,
    lines: ProgressLines,
    recent: VecDeque<(f64, Option<f64>)>,
}

impl TrainingBar {
    /// A bar of so many episodes, some of them done.
    pub(crate) fn new(episodes: u64, done: u64) -> anyhow::Result<TrainingBar> {
        let first = siskin_train::team::current().rank() == 0;
        let bar = if first { ProgressBar::new(episodes) } else { ProgressBar::hidden() };
        let style =
            ProgressStyle::with_template("{bar:30} {pos}/{len} episodes  {rate}  {eta_precise} left  {msg}")?;
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // A terminal that cannot be written to shows nothing.
            let _ = out.write_str(&crate::progress_lines::rate(state.per_sec()));
        };
        bar.set_style(style.with_key("rate", rate));
        bar.set_position(done);
        bar.reset_eta();
        let lines = ProgressLines::new(episodes, done, Instant::now());
        Ok(TrainingBar { bar, lines, recent: VecDeque::with_capacity(RECENT) })
    }

    /// Shows what happened.
    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::Phase { index, count, name } => {
                self.recent.clear();
                self.say(format!("Phase {} of {count}: {name}", index + 1));
            }
            Event::Step { episode, report } => self.step(*episode, report),
            Event::Notice { episode, text } => self.say(format!("episode {episode}: Attention: {text}.")),
            Event::Fitted { fit, scalars } => {
                let named: Vec<String> = scalars.iter().map(|(name, x)| format!("{name} {x:.4}")).collect();
                let how = if fit.converged { "converged" } else { "not converged" };
                self.say(format!(
                    "Scalars fitted in {} steps ({how}): loss {:.4} -> {:.4}; {}",
                    fit.iterations,
                    fit.before,
                    fit.after,
                    named.join(", ")
                ));
            }
            Event::Validated { episode, accuracy: Some(accuracy), nll: Some(nll), best } => {
                let note = if *best { ", best so far" } else { "" };
                let percent = 100.0 * accuracy;
                self.say(format!(
                    "episode {episode}: validation accuracy {percent:.2} %, NLL {nll:.4}{note}"
                ));
            }
            Event::Validated { episode, .. } => {
                self.say(format!("episode {episode}: no validation accuracy, a prediction was not finite"));
            }
        }
    }

    fn step(&mut self, episode: u64, report: &StepReport) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((report.loss, report.accuracy));
        let count = self.recent.len() as f64;
        let loss = self.recent.iter().map(|(loss, _)| loss).sum::<f64>() / count;
        let right: Option<f64> = self.recent.iter().map(|(_, accuracy)| *accuracy).sum();
        let accuracy = right.map_or(String::new(), |a| format!("  accuracy {:.1} %", 100.0 * a / count));
        self.bar.set_position(episode);
        self.bar.set_message(format!("loss {loss:.3}{accuracy}"));
        if self.bar.is_hidden()
            && let Some(far) = self.lines.due(episode, Instant::now())
        {
            say!("{far}  loss {loss:.3}{accuracy}");
        }
        if !report.taken {
            self.say(format!("episode {episode}: the gradient was not finite, the step was skipped"));
        }
    }

    /// A line above the bar. A bar that nobody sees (output to a file) would swallow it.
    pub(crate) fn say(&self, line: String) {
        if self.bar.is_hidden() { say!("{line}") } else { self.bar.println(line) }
    }

    /// Takes the bar away, and says how long it took.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
        if let Some((episodes, time)) = self.lines.done(Instant::now()) {
            say!("{episodes} episodes in {}.", duration(time));
        }
    }
}
