//! Unequal numbers of examples: does a class with many pull the queries of one with few that looks like it?

use super::{Bench, SEED};
use crate::export::card::episodes;
use siskin_adapt::Rules;
use siskin_adapt::unequal::{MIXED, alike, keep};
use siskin_methods::select;

/// Classes that the two most alike are chosen from.
const CHOICE: usize = MIXED.len();

/// Numbers of examples of the two classes.
const COUNTS: [(usize, usize); 7] = [(20, 20), (20, 1), (15, 15), (15, 1), (5, 5), (5, 1), (1, 1)];

/// A line for each pair of numbers that the data have.
pub(super) fn print(bench: &Bench<'_>, tasks: usize) -> anyhow::Result<()> {
    say!("two look-alike classes: queries of the first named the second, and the second the first");
    for (first, second) in COUNTS {
        let Some(found) = episodes(bench.run, bench.split, (CHOICE, first), (tasks, SEED))? else {
            continue;
        };
        let (mut wrong, mut of) = ([0usize; 2], [0usize; 2]);
        for (items, episode) in &found {
            let pair = alike(&episode.support, &episode.labels, CHOICE);
            let rows = |labels: &[usize], most: [usize; 2]| -> Vec<usize> {
                let rows = |k: usize| (0..labels.len()).filter(move |&i| labels[i] == pair[k]).take(most[k]);
                rows(0).chain(rows(1)).collect()
            };
            let side = |class: usize| usize::from(class == pair[1]);
            let support = rows(&episode.labels, [first, second]);
            let labels: Vec<usize> = support.iter().map(|&i| side(episode.labels[i])).collect();
            let own: Vec<usize> = support.iter().map(|&i| items[i]).collect();
            let (task, _) = bench.adapt(&own, &select(&episode.support, &support), &labels, 2)?;
            let queries = rows(&episode.truth, [usize::MAX; 2]);
            let thresholds = task.thresholds(&Rules { abstain: 0.0, ..Rules::default() })?;
            let answers = task.answer(&select(&episode.queries, &queries), &thresholds)?;
            for (answer, &query) in answers.iter().zip(&queries) {
                let truth = side(episode.truth[query]);
                of[truth] += 1;
                wrong[truth] += usize::from(answer.label != truth);
            }
        }
        let share = |k: usize| 100.0 * wrong[k] as f64 / of[k].max(1) as f64;
        say!(
            "{first:>2} : {second:<2}        {:5.1} %  {:5.1} %   ({} queries)",
            share(0),
            share(1),
            of[0] + of[1]
        );
    }
    mixed(bench, tasks)
}

/// Classes with many and with few examples in one task: accuracy of each group, and how sure the answers are.
fn mixed(bench: &Bench<'_>, tasks: usize) -> anyhow::Result<()> {
    let Some(found) = episodes(bench.run, bench.split, (CHOICE, MIXED[0]), (tasks, SEED))? else {
        return Ok(());
    };
    let (mut of, mut right, mut sure) = ([0.0; CHOICE], [0.0; CHOICE], 0.0);
    for (items, episode) in &found {
        let rows = keep(&episode.labels, &MIXED);
        let labels: Vec<usize> = rows.iter().map(|&row| episode.labels[row]).collect();
        let own: Vec<usize> = rows.iter().map(|&row| items[row]).collect();
        let (task, _) = bench.adapt(&own, &select(&episode.support, &rows), &labels, CHOICE)?;
        let thresholds = task.thresholds(&Rules { abstain: 0.0, ..Rules::default() })?;
        for (answer, &truth) in task.answer(&episode.queries, &thresholds)?.iter().zip(&episode.truth) {
            of[truth] += 1.0;
            right[truth] += f64::from(answer.label == truth);
            sure += answer.probability();
        }
    }
    let share = |classes: std::ops::Range<usize>| {
        100.0 * right[classes.clone()].iter().sum::<f64>() / of[classes].iter().sum::<f64>()
    };
    say!(
        "ten classes with {MIXED:?} examples: {:.1} % right, {:.1} % sure; the first four {:.1} %, the last four {:.1} %",
        share(0..CHOICE),
        100.0 * sure / of.iter().sum::<f64>(),
        share(0..4),
        share(6..CHOICE),
    );
    Ok(())
}
