//! Answers for images: files, folders and paths from standard input, a batch at a time.

use super::printer::Printer;
use super::{Args, BATCH, Counts, Question};
use crate::model::tell_notice;
use anyhow::Context;
use siskin_adapt::{Input, Inputs, Intake, Model, TaskClassifier, View};
use std::io::BufRead;
use std::path::PathBuf;

/// Answers all images of the command line.
pub(super) fn answer(
    args: &Args,
    question: &Question<'_>,
    printer: &mut dyn Printer,
) -> anyhow::Result<Counts> {
    let model = open_model(question.task, args)?;
    tell_notice(model.notice());
    let given: Vec<PathBuf> = args.inputs.iter().filter(|p| p.as_os_str() != "-").cloned().collect();
    let lines: Option<Box<dyn BufRead>> =
        (given.len() < args.inputs.len()).then(|| Box::new(std::io::stdin().lock()) as _);
    let (mut inputs, intake) = (Inputs::new(&given, lines), Intake::default());
    let (mut counts, mut warned) = (Counts::default(), false);
    loop {
        let batch = inputs.batch(BATCH, &model, &intake)?;
        if batch.is_empty() {
            printer.end()?;
            return Ok(counts);
        }
        let views: Vec<&View> = batch.iter().filter_map(|input| input.view.as_ref().ok()).collect();
        if let Some(mismatch) = model.mismatch(views.iter().map(|view| &view.look)).filter(|_| !warned) {
            tell!("WARNING: {mismatch}");
            warned = true;
        }
        let answers = match views.is_empty() {
            true => Vec::new(),
            false => {
                let features = model.embed(views)?;
                question.task.answer_named(&features, question.thresholds, question.explain)?
            }
        };
        let rows = rows(batch, answers);
        counts.add(&rows);
        printer.batch(&rows)?;
    }
}

/// A row for each input: the next answer, or why there is none.
pub(super) fn rows<A>(batch: Vec<Input>, answers: Vec<A>) -> Vec<(String, Result<A, String>)> {
    let mut answers = answers.into_iter();
    let row = |Input { path, view }: Input| {
        let answer = match view {
            Ok(_) => answers.next().ok_or_else(|| "no answer came".to_string()),
            Err(fault) => Err(format!("{fault}; {}", fault.advice())),
        };
        (path, answer)
    };
    batch.into_iter().map(row).collect()
}

/// The model of a task: the one given, else where it was when the task was made.
fn open_model(task: &TaskClassifier, args: &Args) -> anyhow::Result<Model> {
    let given = args.model.as_deref();
    let model = task.open_model_on(given, args.device.choice());
    match given {
        Some(_) => Ok(model?),
        None => model.context("The model of this task is not where it was. Name it with --model"),
    }
}
