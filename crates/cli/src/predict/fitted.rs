//! Answers of a classifier that `siskin fit` wrote.

use super::{Args, Counts, printer, vectors};
use crate::compute::in_pool;
use anyhow::Context;
use siskin_adapt::{Features, Rules, VectorClassifier, VectorRules};

/// Vectors answered at a time: many, for a classifier by inducing points answers by products of matrices.
const BATCH: usize = 4096;

/// Answers all files of the command line.
pub(super) fn answer(args: &Args, classifier: &VectorClassifier) -> anyhow::Result<Counts> {
    let usual = Rules::default();
    let untouched = args.abstain == usual.abstain && args.min_probability == usual.min_probability;
    anyhow::ensure!(
        untouched && args.explain.is_none() && args.model.is_none(),
        "A classifier of siskin fit has no \"none of these\", no examples to show and no model: leave --abstain, --min-probability, --explain \
         and --model out. For those, make a task: siskin adapt VECTORS."
    );
    let names: Vec<String> = classifier.classes().map(|(name, _)| name.to_owned()).collect();
    let class_prior = args.class_prior.as_deref().map(|text| shares(text, names.len())).transpose()?;
    let rules = VectorRules { level: args.level, by_class: args.by_class, class_prior };
    let mut printer = printer(args, &names);
    let respond = |rows: &Features| in_pool(|| classifier.answer(rows, &rules));
    let counts =
        vectors::answer(args, (classifier.width(), BATCH), &respond, &mut |rows| printer.batch(&rows))?;
    printer.end()?;
    Ok(counts)
}

/// The shares of classes: `uniform`, or numbers.
fn shares(text: &str, classes: usize) -> anyhow::Result<Vec<f64>> {
    if text == "uniform" {
        return Ok(vec![1.0; classes]);
    }
    let numbers = text.split(',').map(|part| part.trim().parse::<f64>());
    numbers.collect::<Result<Vec<f64>, _>>().with_context(|| {
        format!("--class-prior {text:?} is neither `uniform` nor {classes} numbers with commas between them")
    })
}
