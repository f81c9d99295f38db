//! A class with many examples does not pull the queries of one with a single example that looks like it.

use siskin_adapt::{EMBEDDED, Examples, Features, Image, Model, Rules, TaskClassifier};
use siskin_data::Items;

const TASKS: usize = 40;
/// Classes of which the two that look most alike make a task.
const CHOICE: usize = 10;
/// Examples of the larger class; as many further images of each class are asked about.
const MANY: usize = 10;

#[test]
fn many_examples_do_not_pull_the_queries_of_a_class_with_one() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let glyphs = siskin_data::open::Opened::glyphs().unwrap();
    let Items::Images(data) = glyphs.items else { panic!("glyphs are images") };
    let classes: Vec<Vec<usize>> = data.classes.iter().map(|class| class.images.clone().collect()).collect();
    let embedded = |items: &[usize]| {
        let view = |&item: &usize| {
            let image = data.image(item).unwrap();
            let pixels = image.pixels.to_vec();
            model.view(&Image { width: image.width, height: image.height, channels: image.channels, pixels })
        };
        model.embed(&items.iter().map(view).collect::<Vec<_>>()).unwrap()
    };
    let rows = |features: &Features, rows: std::ops::Range<usize>| Features {
        values: features.values[rows.start * features.dim..rows.end * features.dim].to_vec(),
        rows: rows.len(),
        dim: features.dim,
    };
    // Queries of the class with one example that were given to the other, which has one and which has many; and the reverse.
    let (mut pulled, mut lost, mut asked) = ([0usize; 2], [0usize; 2], 0);
    for task in 0..TASKS {
        let class = |c: usize| &classes[(task * CHOICE + c * 17) % classes.len()];
        let features: Vec<Features> = (0..CHOICE).map(|c| embedded(&class(c)[..2 * MANY])).collect();
        let [first, second] = alike(&features);
        let queries = rows(&features[second], MANY..2 * MANY);
        asked += queries.rows;
        for (case, count) in [1, MANY].into_iter().enumerate() {
            let (many, one) = (rows(&features[first], 0..count), rows(&features[second], 0..1));
            let values = many.values.into_iter().chain(one.values).collect();
            let examples = Examples {
                classes: vec!["many".into(), "one".into()],
                names: (0..=count).map(|i| i.to_string()).collect(),
                labels: (0..=count).map(|i| usize::from(i == count)).collect(),
                features: Features { values, rows: count + 1, dim: one.dim },
                other_kind: false,
                others: None,
            };
            let stop = std::sync::Arc::default();
            let found = TaskClassifier::adapt_features(&model, examples, "unequal", &stop).unwrap();
            let thresholds = found.thresholds(&Rules { abstain: 0.0, ..Rules::default() }).unwrap();
            let named = |features: &Features, class: usize| {
                let answers = found.answer(features, &thresholds).unwrap();
                answers.iter().filter(|answer| answer.label == class).count()
            };
            pulled[case] += named(&queries, 0);
            lost[case] += named(&rows(&features[first], MANY..2 * MANY), 1);
        }
    }
    // Three standard deviations of a share as large as the one with equal numbers, and a query to spare.
    for [equal, unequal] in [pulled, lost].map(|n| n.map(|n| n as f64)) {
        let most = equal + 3.0 * (equal * (1.0 - equal / asked as f64)).sqrt() + 1.0;
        assert!(
            unequal <= most,
            "{pulled:?} pulled, {lost:?} lost of {asked}, with 1 and with {MANY} examples"
        );
        assert!(equal > 0.0, "the pairs are too easy to tell apart to show anything");
    }
}

/// The two classes whose mean features have the largest cosine.
fn alike(features: &[Features]) -> [usize; 2] {
    let means: Vec<Vec<f64>> = features
        .iter()
        .map(|f| (0..f.dim).map(|d| f.values.iter().skip(d).step_by(f.dim).sum::<f64>()).collect())
        .collect();
    let dot = |a: usize, b: usize| means[a].iter().zip(&means[b]).map(|(x, y)| x * y).sum::<f64>();
    let cosine = |a: usize, b: usize| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    let pairs = (0..CHOICE).flat_map(|a| (a + 1..CHOICE).map(move |b| [a, b]));
    pairs.max_by(|p, q| cosine(p[0], p[1]).total_cmp(&cosine(q[0], q[1]))).unwrap()
}
