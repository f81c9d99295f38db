//! Answers for files of vectors.

use super::printer::{Printer, Row};
use super::{Args, BATCH, Counts, Question};
use anyhow::Context;
use siskin_adapt::Features;
use siskin_data::source::embeddings;

/// Answers all files of the command line; a file that cannot be used is one row.
pub(super) fn answer(
    args: &Args,
    question: &Question<'_>,
    printer: &mut dyn Printer,
) -> anyhow::Result<Counts> {
    anyhow::ensure!(args.model.is_none(), "This task was made from vectors: it takes no --model.");
    let lines = args.inputs.iter().any(|path| path.as_os_str() == "-");
    anyhow::ensure!(
        !lines,
        "This task was made from vectors: name the .npy or .safetensors files instead of `-`."
    );
    let mut counts = Counts::default();
    let mut print = |rows: Vec<Row>| {
        counts.add(&rows);
        printer.batch(&rows)
    };
    let width = question.task.width();
    for path in &args.inputs {
        let name = path.display().to_string();
        let read = match embeddings::read_vectors(path) {
            Ok((dim, values)) if dim == width => Ok(values),
            Ok((dim, _)) => Err(format!("its vectors have {dim} numbers, those of the task {width}")),
            Err(e) => Err(e.to_string()),
        };
        match read {
            Err(why) => print(vec![(name, Err(why))])?,
            Ok(values) => {
                for (part, values) in values.chunks(BATCH * width).enumerate() {
                    let rows = rows(question, values, |i| format!("{name}[{}]", part * BATCH + i));
                    print(rows.with_context(|| name.clone())?)?;
                }
            }
        }
    }
    printer.end()?;
    Ok(counts)
}

/// A row for each vector: its answer, or an error where it holds a number that is not finite.
fn rows(
    question: &Question<'_>,
    values: &[f32],
    name: impl Fn(usize) -> String,
) -> siskin_adapt::Result<Vec<Row>> {
    let dim = question.task.width();
    let finite = |vector: &[f32]| vector.iter().all(|v| v.is_finite());
    let good = values.chunks_exact(dim).filter(|vector| finite(vector)).flatten();
    let good: Vec<f64> = good.map(|&v| f64::from(v)).collect();
    let features = Features { rows: good.len() / dim, values: good, dim };
    let mut answers = match features.rows {
        0 => Vec::new(),
        _ => question.task.answer_named(&features, question.thresholds, question.explain)?,
    }
    .into_iter();
    let row = |(i, vector): (usize, &[f32])| {
        let answer = match finite(vector) {
            true => answers.next().ok_or_else(|| "no answer came".to_string()),
            false => Err("it holds a number that is not finite".into()),
        };
        (name(i), answer)
    };
    Ok(values.chunks_exact(dim).enumerate().map(row).collect())
}
