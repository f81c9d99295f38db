//! Episodes that a model under test is asked, with a bar; where the output goes to a file, with a line every half minute.

use crate::progress_lines::ProgressLines;
use indicatif::{ProgressBar, ProgressStyle};
use siskin_data::SplitName;
use siskin_train::evaluate::{AnsweredEpisode, Watch};
use siskin_train::protocol;
use siskin_train::under_test::ModelUnderTest;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Answers to the validation episodes, one group of them, or to the test episodes.
pub(crate) fn answers(model: &ModelUnderTest, split: SplitName) -> anyhow::Result<Vec<AnsweredEpisode>> {
    let groups = if split == SplitName::Test { model.config.test.groups } else { 1 };
    let total = groups * model.config.test.episodes;
    let bar = ProgressBar::new(total);
    bar.set_style(ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} episodes  {eta_precise} left")?);
    bar.set_message(if split == SplitName::Test { "Testing" } else { "Validating" });
    let lines = Mutex::new(ProgressLines::new(total, 0, Instant::now()));
    let answered = || {
        bar.inc(1);
        if bar.is_hidden()
            && let Ok(mut lines) = lines.lock()
            && let Some(far) = lines.due(bar.position(), Instant::now())
        {
            tell!("{far}");
        }
    };
    let watch = Watch { stop: &AtomicBool::new(false), answered: &answered };
    let found = protocol::answers_watched(model, split, groups, &watch);
    bar.finish_and_clear();
    Ok(found?)
}
