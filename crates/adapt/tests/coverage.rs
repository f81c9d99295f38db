//! Sets at 90 % hold the truth, on drawn glyphs that the embedded model was not trained on, as they are and distorted.

use siskin_adapt::{EMBEDDED, Example, Image, LabelledImages, Model, Rules, TaskClassifier};
use siskin_data::Items;
use siskin_data::image::ImageRef;

/// One query of each task, so that queries are independent.
const TASKS: usize = 150;

/// `P(X <= k)` is below 0.1 % for fewer than this: 0.9 n - 3.09 sqrt(0.09 n).
fn least(n: usize) -> usize {
    (0.9 * n as f64 - 3.09 * (0.09 * n as f64).sqrt()) as usize
}

/// What is done to every image of a task, examples and queries alike.
type Distort = fn(&ImageRef<'_>) -> Image;

fn as_it_is(image: &ImageRef<'_>) -> Image {
    Image {
        width: image.width,
        height: image.height,
        channels: image.channels,
        pixels: image.pixels.to_vec(),
    }
}

fn inverted(image: &ImageRef<'_>) -> Image {
    let mut out = as_it_is(image);
    out.pixels.iter_mut().for_each(|v| *v = 255 - *v);
    out
}

/// Strokes that reach a fifteenth of the side farther in every direction.
fn thick(image: &ImageRef<'_>) -> Image {
    let mut out = as_it_is(image);
    let (width, height, channels) =
        (image.width as usize, image.height as usize, usize::from(image.channels));
    let reach = width / 15;
    for y in 0..height {
        for x in 0..width {
            let near = (y.saturating_sub(reach)..(y + reach + 1).min(height))
                .flat_map(|v| (x.saturating_sub(reach)..(x + reach + 1).min(width)).map(move |u| (u, v)));
            for c in 0..channels {
                let ink = near.clone().map(|(u, v)| image.pixels[(v * width + u) * channels + c]).min();
                out.pixels[(y * width + x) * channels + c] = ink.unwrap();
            }
        }
    }
    out
}

/// Of one query of each task: how many sets hold the truth, the mean size of a set, how many are right, and how many tasks look unlike
/// the model's images.
fn asked((way, shot): (usize, usize), distort: Distort) -> (usize, f64, usize, usize) {
    let model = Model::open(EMBEDDED[0].0).unwrap();
    let glyphs = siskin_data::open::Opened::glyphs().unwrap();
    let Items::Images(data) = glyphs.items else { panic!("glyphs are images") };
    let classes: Vec<Vec<usize>> = data.classes.iter().map(|class| class.images.clone().collect()).collect();
    let (mut covered, mut size, mut right, mut unlike) = (0, 0, 0, 0);
    for task in 0..TASKS {
        // Other classes and other images for each task, by strides that share no factor with their numbers.
        let class = |c: usize| &classes[(task * way + c * 17) % classes.len()];
        let image = |c: usize, i: usize| class(c)[(task * 3 + i) % class(c).len()];
        let view = |item: usize| model.view(&distort(&data.image(item).unwrap()));
        let examples = (0..way).flat_map(|c| (0..shot).map(move |i| (c, i)));
        let examples =
            examples.map(|(c, i)| Example { name: format!("{c} {i}"), class: c, view: view(image(c, i)) });
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
        unlike += usize::from(found.calibration().unlike);
    }
    (covered, size as f64 / TASKS as f64, right, unlike)
}

#[test]
fn sets_hold_the_truth_at_their_rate() {
    for (way, shot) in [(5, 1), (5, 3)] {
        let (covered, mean, right, _) = asked((way, shot), as_it_is);
        assert!(covered >= least(TASKS), "{way} x {shot}: {covered} of {TASKS} covered");
        // Sets that hold every class would cover all; these must say something.
        assert!(
            mean < 0.8 * way as f64 && right > TASKS / 2,
            "{way} x {shot}: sets of {mean}, {right} right"
        );
    }
}

/// One example of each of ten classes: nothing can be left out, so only what the images look like warns.
#[test]
fn sets_hold_the_truth_of_images_unlike_those_of_training() {
    let distorted: [(&str, Distort); 2] = [("inverted", inverted), ("thick strokes", thick)];
    for (name, distort) in distorted {
        let (covered, mean, right, unlike) = asked((10, 1), distort);
        println!("{name}: {covered} of {TASKS} covered, sets of {mean:.2}, {right} right, {unlike} unlike");
        assert!(
            covered >= least(TASKS),
            "{name}: {covered} of {TASKS} covered, {unlike} tasks looked unlike"
        );
        assert!(unlike > TASKS / 2 && mean < 10.0, "{name}: {unlike} tasks looked unlike, sets of {mean}");
    }
}
