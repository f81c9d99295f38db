//! Few-shot tasks on vectors that `siskin embed` wrote: what tasks of an added network answer, as JSON lines.
//!
//! ```sh
//! siskin embed lite0 PHOTOS --out photos.npy --unit
//! cargo run --release --workspace --example photo_tasks -- photos.npy TASKS [SHOT [OTHERS.npy]] > answers.jsonl
//! python scripts/photos/compare.py photos.npy answers.jsonl    # beside scikit-learn on the same vectors
//! ```
//!
//! Each task has 5 classes with 5 (or SHOT) examples and 15 queries each, and 15 queries of 5 other classes. OTHERS are vectors of photos of the same kind
//! and of no class of PHOTOS: 200 of them from all over stand beside every task.

use siskin_adapt::{Answer, Features, Rules, TaskClassifier};
use siskin_data::Embeddings;
use siskin_data::source::embeddings;
use siskin_random::stream;
use std::path::Path;

const WAY: usize = 5;
const QUERIES: usize = 15;
const SEED: u64 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which file of vectors?")?;
    let tasks: u64 = args.next().ok_or("how many tasks?")?.parse()?;
    let shot: usize = args.next().map_or(Ok(5), |shot| shot.parse())?;
    let data = embeddings::read(Path::new(&path))?;
    let others =
        args.next().map(|path| embeddings::read(Path::new(&path))).transpose()?.map(|all| some(&all));
    for index in 0..tasks {
        println!("{}", task(&data, (shot, others.as_ref()), index)?);
    }
    Ok(())
}

/// As many as `siskin adapt --others` takes.
fn some(all: &Embeddings) -> Features {
    const COUNT: usize = 200;
    let rows: Vec<usize> = (0..COUNT.min(all.len())).map(|i| i * all.len() / COUNT.min(all.len())).collect();
    let values = rows.iter().flat_map(|&r| all.vector(r)).map(|&v| f64::from(v)).collect();
    Features { values, rows: rows.len(), dim: all.dim() }
}

/// Draws, adapts and asks; source rows, true labels and answers.
fn task(
    data: &Embeddings,
    (shot, others): (usize, Option<&Features>),
    index: u64,
) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    use rand::seq::SliceRandom;
    let mut rng = stream(SEED, "photo tasks", index);
    let needed = shot + QUERIES;
    let mut classes: Vec<_> = data.classes.iter().filter(|c| c.images.len() >= needed).collect();
    classes.shuffle(&mut rng);
    if classes.len() < 2 * WAY {
        return Err(format!("too few classes with {needed} images").into());
    }
    let mut drawn = |class: &siskin_data::Class| {
        let mut rows: Vec<usize> = class.images.clone().collect();
        rows.shuffle(&mut rng);
        rows.truncate(needed);
        rows
    };
    let rows: Vec<Vec<usize>> = classes[..2 * WAY].iter().map(|class| drawn(class)).collect();
    let support: Vec<usize> = rows[..WAY].iter().flat_map(|r| r[..shot].to_vec()).collect();
    let labels: Vec<usize> = (0..WAY).flat_map(|c| vec![c; shot]).collect();
    let queries: Vec<usize> = rows[..WAY].iter().flat_map(|r| r[shot..].to_vec()).collect();
    let truth: Vec<usize> = (0..WAY).flat_map(|c| [c; QUERIES]).collect();
    let strangers: Vec<usize> = rows[WAY..].iter().flat_map(|r| r[shot..].to_vec()).collect();
    let vectors: Vec<f32> = support.iter().flat_map(|&r| data.vector(r).to_vec()).collect();
    let names = (0..WAY).map(|c| format!("class {c}")).collect();
    let few = Embeddings::new("task", names, data.dim(), &vectors, &labels)?;
    let mut adapted = TaskClassifier::adapt_vectors(&few)?;
    if let Some(others) = others {
        adapted = adapted.with_others(others.clone())?;
    }
    let thresholds = adapted.thresholds(&Rules::default())?;
    let answers = |rows: &[usize]| -> Result<Vec<Answer>, siskin_adapt::Error> {
        let values = rows.iter().flat_map(|&r| data.vector(r)).map(|&v| f64::from(v)).collect();
        adapted.answer(&Features { values, rows: rows.len(), dim: data.dim() }, &thresholds)
    };
    let (known, others) = (answers(&queries)?, answers(&strangers)?);
    let source = |rows: &[usize]| rows.iter().map(|&r| data.source_row(r)).collect::<Vec<_>>();
    Ok(serde_json::json!({
        "support": source(&support), "labels": labels, "queries": source(&queries), "truth": truth,
        "probabilities": known.iter().map(|a| a.probabilities.clone()).collect::<Vec<_>>(),
        "sets": known.iter().map(|a| a.set.clone()).collect::<Vec<_>>(),
        "none": known.iter().map(|a| a.none_of_these).collect::<Vec<_>>(),
        "novelty": known.iter().map(|a| a.novelty).collect::<Vec<_>>(),
        "strangers_none": others.iter().map(|a| a.none_of_these).collect::<Vec<_>>(),
        "strangers_novelty": others.iter().map(|a| a.novelty).collect::<Vec<_>>(),
        "temperature": adapted.calibration().temperature,
        "notes": thresholds.notes(),
    }))
}
