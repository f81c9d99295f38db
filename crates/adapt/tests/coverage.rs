//! Sets at 90 % hold the truth, on drawn glyphs that the embedded model was not trained on.

use siskin_adapt::{EMBEDDED, Example, LabelledImages, Model, Rules, TaskClassifier};
use siskin_data::Items;

/// One query of each task, so that queries are independent.
const TASKS: usize = 150;

/// `P(X <= k)` is below 0.1 % for fewer than this: 0.9 n - 3.09 sqrt(0.09 n).
fn least(n: usize) -> usize {
    (0.9 * n as f64 - 3.09 * (0.09 * n as f64).sqrt()) as usize
}

#[test]
fn sets_hold_the_truth_at_their_rate() {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let glyphs = siskin_data::open::Opened::glyphs().unwrap();
    let Items::Images(data) = glyphs.items else { panic!("glyphs are images") };
    let classes: Vec<Vec<usize>> = data.classes.iter().map(|class| class.images.clone().collect()).collect();
    for (way, shot) in [(5, 1), (5, 3)] {
        let (mut covered, mut size, mut right) = (0, 0, 0);
        for task in 0..TASKS {
            // Other classes and other images for each task, by strides that share no factor with their numbers.
            let class = |c: usize| &classes[(task * way + c * 17) % classes.len()];
            let image = |c: usize, i: usize| class(c)[(task * 3 + i) % class(c).len()];
            let view = |item: usize| {
                let image = data.image(item).unwrap();
                model.view(&siskin_adapt::Image {
                    width: image.width,
                    height: image.height,
                    channels: image.channels,
                    pixels: image.pixels.to_vec(),
                })
            };
            let examples = (0..way).flat_map(|c| (0..shot).map(move |i| (c, i)));
            let examples = examples.map(|(c, i)| Example {
                name: format!("{c} {i}"),
                class: c,
                view: view(image(c, i)),
            });
            let names = (0..way).map(|c| format!("class {c}")).collect();
            let support = LabelledImages::new(names, examples.collect()).unwrap();
            let found = TaskClassifier::adapt(&model, &support, "glyphs").unwrap();
            let thresholds = found.thresholds(&Rules { abstain: 0.0, ..Rules::default() }).unwrap();
            let truth = task % way;
            let query = model.embed(&[view(image(truth, shot))]).unwrap();
            let answer = &found.answer(&query, &thresholds).unwrap()[0];
            covered += usize::from(answer.set.contains(&truth));
            right += usize::from(answer.label == truth);
            size += answer.set.len();
        }
        assert!(covered >= least(TASKS), "{way} x {shot}: {covered} of {TASKS} covered");
        // Sets that hold every class would cover all; these must say something.
        let mean = size as f64 / TASKS as f64;
        assert!(
            mean < 0.8 * way as f64 && right > TASKS / 2,
            "{way} x {shot}: sets of {mean}, {right} right"
        );
    }
}
