//! Answers for files of vectors.

use super::{Args, Counts};
use anyhow::Context;
use siskin_adapt::Features;
use siskin_data::source::embeddings;

/// A name and the answer to it, or why there is none.
type Row<A> = (String, Result<A, String>);

/// Answers all files of the command line with `respond`, `batch` vectors of `width` numbers at a time; a file that cannot be used is one
/// row. `print` gets the rows.
pub(super) fn answer<A>(
    args: &Args,
    (width, batch): (usize, usize),
    respond: &dyn Fn(&Features) -> siskin_adapt::Result<Vec<A>>,
    print: &mut dyn FnMut(Vec<Row<A>>) -> anyhow::Result<()>,
) -> anyhow::Result<Counts> {
    let lines = args.inputs.iter().any(|path| path.as_os_str() == "-");
    anyhow::ensure!(
        !lines,
        "{} takes vectors: name the .npy or .safetensors files instead of `-`.",
        args.task.display()
    );
    let mut counts = Counts::default();
    let mut print = |rows: Vec<Row<A>>| {
        counts.add(&rows);
        print(rows)
    };
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
                for (part, values) in values.chunks(batch * width).enumerate() {
                    let rows = rows(width, values, respond, |i| format!("{name}[{}]", part * batch + i));
                    print(rows.with_context(|| name.clone())?)?;
                }
            }
        }
    }
    Ok(counts)
}

/// A row for each vector: its answer, or an error where it holds a number that is not finite.
fn rows<A>(
    width: usize,
    values: &[f32],
    respond: &dyn Fn(&Features) -> siskin_adapt::Result<Vec<A>>,
    name: impl Fn(usize) -> String,
) -> siskin_adapt::Result<Vec<Row<A>>> {
    let finite = |vector: &[f32]| vector.iter().all(|v| v.is_finite());
    let good = values.chunks_exact(width).filter(|vector| finite(vector)).flatten();
    let good: Vec<f64> = good.map(|&v| f64::from(v)).collect();
    let features = Features { rows: good.len() / width, values: good, dim: width };
    let mut answers = if features.rows == 0 { Vec::new() } else { respond(&features)? }.into_iter();
    let row = |(i, vector): (usize, &[f32])| {
        let answer = match finite(vector) {
            true => answers.next().ok_or_else(|| "no answer came".to_string()),
            false => Err("it holds a number that is not finite".into()),
        };
        (name(i), answer)
    };
    Ok(values.chunks_exact(width).enumerate().map(row).collect())
}
