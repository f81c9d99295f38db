//! Answers of a task whose images have label sets.

use super::{Args, BATCH, Counts, Format, images, vectors};
use crate::compute::in_pool;
use crate::model::tell_notice;
use siskin_adapt::{Inputs, Intake, LabelSetTask, Rules, SetAnswer, View};
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// Labels shown in the table beside the set, at most.
const SHOWN: usize = 5;

/// Answers all images of the command line.
pub(crate) fn answer(args: &Args, task: &LabelSetTask) -> anyhow::Result<Counts> {
    let usual = Rules::default();
    let untouched = args.level == usual.level
        && args.abstain == usual.abstain
        && args.min_probability == usual.min_probability;
    anyhow::ensure!(
        untouched && args.explain.is_none(),
        "This task has label sets: --level, --abstain, --min-probability and --explain are for tasks with one class per image."
    );
    let mut out = std::io::stdout().lock();
    if args.format == Format::Csv {
        let names: Vec<String> = task.labels().map(|(name, _)| quoted(name)).collect();
        writeln!(out, "path,error,set,set_probability,{}", names.join(","))?;
    }
    let mut print = |rows: Vec<(String, Result<SetAnswer, String>)>| -> anyhow::Result<()> {
        for (path, answer) in &rows {
            writeln!(out, "{}", line(args.format, path, answer)?)?;
        }
        Ok(out.flush()?)
    };
    if task.takes_vectors() {
        return vectors::answer(
            args,
            (task.width(), BATCH),
            &|rows| in_pool(|| task.answer(rows)),
            &mut print,
        );
    }
    let model = task.open_model(args.model.as_deref(), args.device.choice())?;
    tell_notice(model.notice());
    let given: Vec<PathBuf> = args.inputs.iter().filter(|p| p.as_os_str() != "-").cloned().collect();
    let lines: Option<Box<dyn BufRead>> =
        (given.len() < args.inputs.len()).then(|| Box::new(std::io::stdin().lock()) as _);
    let (mut inputs, intake) = (Inputs::new(&given, lines), Intake::default());
    let mut counts = Counts::default();
    loop {
        let batch = inputs.batch(BATCH, &model, &intake)?;
        if batch.is_empty() {
            return Ok(counts);
        }
        let views: Vec<&View> = batch.iter().filter_map(|input| input.view.as_ref().ok()).collect();
        let answers = if views.is_empty() { Vec::new() } else { task.answer(&model.embed(views)?)? };
        let rows = images::rows(batch, answers);
        counts.add(&rows);
        print(rows)?;
    }
}

fn line(format: Format, path: &str, answer: &Result<SetAnswer, String>) -> anyhow::Result<String> {
    Ok(match (format, answer) {
        (Format::Jsonl, Ok(answer)) => {
            let mut row = serde_json::Map::from_iter([("path".to_owned(), path.into())]);
            row.extend(answer.to_json());
            serde_json::Value::Object(row).to_string()
        }
        (Format::Jsonl, Err(error)) => serde_json::json!({ "path": path, "error": error }).to_string(),
        (Format::Csv, Ok(answer)) => {
            let labels: Vec<String> = answer.labels.iter().map(|(_, p)| p.to_string()).collect();
            let set = quoted(&answer.set.join(";"));
            format!("{},,{set},{},{}", quoted(path), answer.set_probability, labels.join(","))
        }
        (Format::Csv, Err(error)) => format!("{},{},,,", quoted(path), quoted(error)),
        (Format::Table, Ok(answer)) => {
            let mut ranked = answer.labels.clone();
            ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
            let shown: Vec<String> =
                ranked.iter().take(SHOWN).map(|(name, p)| format!("{name} {:.0} %", 100.0 * p)).collect();
            let set = if answer.set.is_empty() { "no label".to_owned() } else { answer.set.join(" + ") };
            format!("{path}  {set} ({:.0} %)  [{}]", 100.0 * answer.set_probability, shown.join(", "))
        }
        (Format::Table, Err(error)) => format!("{path}  {error}"),
    })
}

/// A cell of comma-separated values.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
