//! `siskin trust`: what the answers of a model are worth, on many tasks of test classes.

mod tally;
mod unequal;

use crate::export::card::{episodes, too_few};
use crate::model::ModelArgs;
use rayon::prelude::*;
use siskin_adapt::{Examples, Features, Look, Model, Rules, TaskClassifier, Thresholds, ValidationEpisode};
use siskin_data::{Items, SplitName};
use siskin_train::under_test::ModelUnderTest;
use std::time::Instant;
use tally::Tally;

/// Shapes of the tasks: classes, labelled images of each.
const SHAPES: [(usize, usize); 7] = [(2, 5), (5, 1), (5, 2), (5, 5), (10, 3), (20, 1), (20, 5)];
/// Tasks that are timed.
const TIMED: [(usize, usize); 2] = [(100, 2), (20, 25)];
/// Seed of the tasks.
const SEED: u64 = 0x7472_7573;

/// Arguments of `siskin trust`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin trust runs/cub                                    on the test classes of its data
  siskin trust omniglot-conv4s --data cub --tasks 100      drawn characters' model, photos: the wrong kind

Each row is of many tasks as `siskin adapt` makes them, with the rules that `siskin predict` has by default: sets at 90 %,
\"none of these\" for 5 % of members. `left out` is the accuracy that the tasks' own examples estimate, to be compared with
`accuracy`; `covered` the share of queries whose set holds the truth; `strangers` and `members` the shares of
queries of other classes and of the task's that are called none of these; `contradicted` the share of tasks whose examples
contradict the model; `other kind` and `unlike` the shares of tasks whose images look like another kind than the model's, and
whose features lie farther from its training images than those of validation tasks.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Tasks of each shape
    #[arg(long, default_value_t = 200)]
    tasks: usize,
    /// Classes of the tasks: test, or validation to choose by
    #[arg(long, value_name = "PART", default_value = "test")]
    classes: Part,
}

/// Classes of the tasks.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Part {
    Validation,
    Test,
}

impl From<Part> for SplitName {
    fn from(part: Part) -> SplitName {
        match part {
            Part::Validation => SplitName::Val,
            Part::Test => SplitName::Test,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let run = args.model.open(&[args.classes.into()])?;
    let model = args.model.device().open(&args.model.path.display().to_string())?;
    let bench = Bench { run: &run, model: &model, split: args.classes.into() };
    say!("{:14} {}", "tasks", Tally::HEADER);
    for (way, shot) in SHAPES {
        let shape = format!("{way} x {shot}");
        let Some(tasks) = episodes(&run, bench.split, (way, shot), (args.tasks, SEED))? else {
            say!("{shape:14} {}", too_few(&run, bench.split, (way, shot)));
            continue;
        };
        let tallies = tasks.par_iter().map(|(items, task)| bench.tally(items, task, way));
        let all = tallies.collect::<anyhow::Result<Vec<Tally>>>()?;
        say!("{shape:14} {}", Tally::sum(&all).row());
    }
    unequal::print(&bench, args.tasks)?;
    for (way, shot) in TIMED {
        let Some(tasks) = episodes(&run, bench.split, (way, shot), (1, SEED))? else { continue };
        let (items, task) = &tasks[0];
        let start = Instant::now();
        bench.adapt(items, &task.support, &task.labels, way)?;
        say!("{way} x {shot}: fitted, each example left out, in {:.2} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// A model and the tasks' data.
struct Bench<'a> {
    run: &'a ModelUnderTest,
    model: &'a Model,
    split: SplitName,
}

impl Bench<'_> {
    fn adapt(
        &self,
        items: &[usize],
        features: &Features,
        labels: &[usize],
        way: usize,
    ) -> anyhow::Result<(TaskClassifier, Thresholds)> {
        let looks: Vec<Look> = match &self.run.data.seen(self.split).items {
            Items::Images(data) => {
                items.iter().filter_map(|&item| Some(Look::of(&data.image(item).ok()?))).collect()
            }
            _ => Vec::new(),
        };
        let examples = Examples {
            classes: (0..way).map(|c| format!("class {c}")).collect(),
            names: items.iter().map(|item| format!("image {item}")).collect(),
            labels: labels.to_vec(),
            features: features.clone(),
            other_kind: self.model.mismatch(&looks).is_some(),
            others: None,
        };
        let task = TaskClassifier::adapt_features(self.model, examples, "trust", &std::sync::Arc::default())?;
        let thresholds = task.thresholds(&Rules::default())?;
        Ok((task, thresholds))
    }

    fn tally(&self, items: &[usize], episode: &ValidationEpisode, way: usize) -> anyhow::Result<Tally> {
        let (task, thresholds) = self.adapt(items, &episode.support, &episode.labels, way)?;
        let members = task.answer(&episode.queries, &thresholds)?;
        let strangers = task.answer(&episode.strangers, &thresholds)?;
        // Sets by themselves: what they hold where nothing is called none of these.
        let rules = Rules { abstain: 0.0, ..Rules::default() };
        let sets = task.answer(&episode.queries, &task.thresholds(&rules)?)?;
        let mut tally = Tally::of(&sets, &episode.truth);
        tally.none_of_these(&members, &strangers);
        tally.task(task.calibration());
        Ok(tally)
    }
}
