//! Vectors: a class with many examples does not pull the queries of one with a single example either.

use rand::RngExt;
use siskin_adapt::{Features, Rules, TaskClassifier};
use siskin_data::Embeddings;
use siskin_gp::classifier::GpClassifier;
use siskin_random::stream;

const DIM: usize = 6;
const TASKS: u64 = 12;
/// Examples of the larger class, and queries of each.
const MANY: usize = 15;

/// Points of a class: its centre at `shift` on every axis, and noise.
fn points(task: u64, name: &str, count: usize, shift: f64) -> Vec<f64> {
    let mut rng = stream(task, name, 0);
    // The sum of three even numbers is near enough to a normal one.
    let mut noise = || (0..3).map(|_| rng.random_range(-1.0..1.0)).sum::<f64>();
    (0..count * DIM).map(|_| shift + noise()).collect()
}

/// Queries of the class with one example that were given to the other: as tasks answer, and by the classifier as it is.
#[test]
fn tasks_of_vectors_weigh_classes_alike() {
    let (mut pulled, mut lost, mut unweighted) = (0, 0, 0);
    for task in 0..TASKS {
        let examples = [points(task, "many", MANY, 0.0), points(task, "one", 1, 0.9)].concat();
        let queries = [points(task, "ask", MANY, 0.0), points(task, "ask more", MANY, 0.9)].concat();
        let labels: Vec<usize> = (0..=MANY).map(|i| usize::from(i == MANY)).collect();
        let values: Vec<f32> = examples.iter().map(|&v| v as f32).collect();
        let names = vec!["many".into(), "one".into()];
        let data = Embeddings::new("clumps", names, DIM, &values, &labels).unwrap();
        let made = TaskClassifier::adapt_vectors(&data).unwrap();
        let thresholds = made.thresholds(&Rules { abstain: 0.0, ..Rules::default() }).unwrap();
        let queries = Features { values: queries, rows: 2 * MANY, dim: DIM };
        let answers = made.answer(&queries, &thresholds).unwrap();
        lost += answers[..MANY].iter().filter(|answer| answer.label == 1).count();
        pulled += answers[MANY..].iter().filter(|answer| answer.label == 0).count();

        let mut plain = GpClassifier::default();
        let x = |values: &[f64], rows: usize| faer::Mat::from_fn(rows, DIM, |i, j| values[i * DIM + j]);
        plain.fit(x(&examples, MANY + 1).as_ref(), &labels).unwrap();
        let named = plain.predict(x(&queries.values, 2 * MANY).as_ref()).unwrap();
        unweighted += named[MANY..].iter().filter(|&&class| class == 0).count();
    }
    let all = TASKS as usize * MANY;
    assert!(
        10 * unweighted > 9 * all,
        "unweighted, {unweighted} of {all} are pulled: too easy to show anything"
    );
    assert!(2 * pulled < all && 2 * lost < all, "{pulled} pulled, {lost} lost of {all}");
}
