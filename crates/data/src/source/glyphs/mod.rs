//! `glyphs`: handwriting-like characters drawn by a seeded stroke model, the data set that needs no download.
//!
//! A class is a program for the pen (`program.rs`); its twenty examples are performances of it by twenty drawers
//! (`hand.rs`), drawn black on white at 28 x 28 (`raster.rs`). Like Omniglot in kind, made in about a second.

mod hand;
mod program;
mod raster;

use std::sync::Arc;

use rand::RngExt;
use rayon::prelude::*;

use crate::{ClassImages, Dataset, Image, Items, Result, Split, SplitName, Splits};
use hand::{Jitter, perform};
use program::Program;
use siskin_random::stream;

/// Number of classes.
pub(crate) const CLASSES: usize = 600;
/// Examples of each class, one by each drawer.
pub(crate) const EXAMPLES: usize = 20;
/// Width and height of an image.
pub(crate) const SIDE: usize = 28;
/// The seed of the data set that bears the name `glyphs`.
pub(crate) const SEED: u64 = 1;

/// Classes of the training, validation and test part, in this order.
const PARTS: [usize; 3] = [400, 80, 120];

/// Part of the page a glyph takes. The evaluation transform (resize to 32, crop 28) cuts 1.75 pixels from each side.
const REACH: f64 = 0.68;

/// Two glyphs are different if the cosine of their blurred pages is below this.
const SAME: f64 = 0.75;

/// How inexact the average drawer is.
const HABIT: Jitter = Jitter {
    angle: 0.1,
    length: 0.1,
    place: 0.03,
    control: 0.02,
    rotation: 0.12,
    shear: 0.12,
    scale: 0.12,
    shift: 0.05,
};

/// All images of `seed`: a pure function of it, the same bytes on any machine and any number of threads.
pub(crate) fn dataset(seed: u64) -> Result<Dataset> {
    let programs = invent(seed);
    let drawers: Vec<Drawer> = (0..EXAMPLES).map(|d| Drawer::new(seed, d)).collect();
    let classes = programs
        .par_iter()
        .enumerate()
        .map(|(c, program)| ClassImages {
            name: format!("glyph{c:03}"),
            domain: "glyphs".into(),
            images: (drawers.iter().enumerate())
                .map(|(d, drawer)| (format!("glyph{c:03}/{d:02}.png"), drawer.write(program, seed, c, d)))
                .collect(),
        })
        .collect();
    Dataset::in_memory("glyphs", classes)
}

/// The fixed split of a data set made by `dataset`: the first 400 classes train, the next 80 validate, 120 test.
pub fn splits(data: Arc<Dataset>) -> Splits {
    let [train, val, _] = PARTS;
    let part = |name, classes| Split::of_classes(name, Items::Images(data.clone()), classes);
    Splits {
        train: part(SplitName::Train, 0..train),
        val: part(SplitName::Val, train..train + val),
        test: part(SplitName::Test, train + val..CLASSES),
    }
}

/// A person with a pen: a width, a slant, and more or less care.
struct Drawer {
    width: f64,
    slant: f64,
    habit: Jitter,
}

impl Drawer {
    fn new(seed: u64, index: usize) -> Self {
        let mut rng = stream(seed, "glyphs drawer", index as u64);
        let width = rng.random_range(1.2..2.2);
        let slant = rng.random_range(-0.15..0.15);
        let care = rng.random_range(0.7..1.3);
        let habit = Jitter { angle: care * HABIT.angle, length: care * HABIT.length, ..HABIT };
        Self { width, slant, habit }
    }

    fn write(&self, program: &Program, seed: u64, class: usize, drawer: usize) -> Image {
        let mut rng = stream(seed, "glyphs example", (class * EXAMPLES + drawer) as u64);
        let mut lines = perform(program, &self.habit, &mut rng);
        for p in lines.iter_mut().flatten() {
            p[0] -= self.slant * p[1];
        }
        let width = self.width * rng.random_range(0.85..1.15);
        page(raster::draw(&lines, SIDE, REACH, width))
    }
}

fn page(pixels: Vec<u8>) -> Image {
    Image { width: SIDE as u32, height: SIDE as u32, channels: 1, pixels }
}

/// Invents the programs one after the other; one that looks like an earlier one is drawn again.
fn invent(seed: u64) -> Vec<Program> {
    let mut programs = Vec::with_capacity(CLASSES);
    let mut looks: Vec<Vec<f64>> = Vec::with_capacity(CLASSES);
    let mut candidate = 0;
    while programs.len() < CLASSES {
        let mut rng = stream(seed, "glyphs program", candidate);
        candidate += 1;
        let program = Program::invent(&mut rng);
        let look = look(&program, &mut rng);
        if looks.iter().all(|other| dot(&look, other) < SAME) {
            looks.push(look);
            programs.push(program);
        }
    }
    programs
}

/// The scalar product of two looks, in four sums that do not wait for one another.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(4)) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// What is seen of a program at a glance: its exact performance with a broad pen at 14 x 14, as a unit vector.
fn look(program: &Program, rng: &mut rand_chacha::ChaCha8Rng) -> Vec<f64> {
    let page = raster::draw(&perform(program, &Jitter::NONE, rng), 14, REACH, 2.0);
    let ink: Vec<f64> = page.iter().map(|&v| 1.0 - f64::from(v) / 255.0).collect();
    let norm = ink.iter().map(|i| i * i).sum::<f64>().sqrt();
    ink.iter().map(|i| i / norm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::seq::index::sample;
    use std::sync::LazyLock;

    static DATA: LazyLock<Arc<Dataset>> = LazyLock::new(|| Arc::new(dataset(SEED).unwrap()));

    fn with_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
    }

    #[test]
    fn a_seed_names_the_bytes() {
        let one = with_threads(1, || dataset(SEED).unwrap());
        let two = with_threads(2, || dataset(SEED).unwrap());
        assert_eq!(one.content_hash(), two.content_hash());
        let first = |seed| Program::invent(&mut stream(seed, "glyphs program", 0));
        assert_ne!(first(SEED), first(SEED + 1));
        // Results on `glyphs` are quoted: its bytes must not change unnoticed.
        assert_eq!(
            one.content_hash().to_hex().as_str(),
            "a2cde514cd5ca75800fe6f73dd26bd9b930032fdc76effe6118d7d8fd1175284"
        );
    }

    #[test]
    fn there_are_600_classes_of_20_in_three_parts() {
        let data = DATA.clone();
        assert_eq!((data.classes.len(), data.len()), (CLASSES, CLASSES * EXAMPLES));
        let splits = splits(data.clone());
        let mut seen: Vec<usize> = Vec::new();
        for name in SplitName::ALL {
            seen.extend(splits.get(name).classes.iter().map(|members| members.class));
        }
        assert_eq!(seen, (0..CLASSES).collect::<Vec<_>>());
        for index in 0..data.len() {
            let image = data.image(index).unwrap();
            let ink = image.pixels.iter().map(|&v| 1.0 - f64::from(v) / 255.0).sum::<f64>();
            assert!((12.0..300.0).contains(&ink), "{} has {ink} pixels of ink", data.image_name(index));
        }
    }

    /// Not trivial: 5-way 1-shot by the nearest image is far from perfect. Not noise: it is far from chance.
    #[test]
    fn the_nearest_image_is_right_about_half_the_time() {
        let data = &DATA;
        let image = |class: usize, i: usize| data.image(class * EXAMPLES + i).unwrap().pixels.into_owned();
        let distance = |a: &[u8], b: &[u8]| -> u64 {
            a.iter().zip(b).map(|(&x, &y)| u64::from(x.abs_diff(y)).pow(2)).sum()
        };
        let (mut right, episodes) = (0, 2000);
        for e in 0..episodes {
            let mut rng = stream(0, "glyphs nearest", e);
            let classes = sample(&mut rng, CLASSES, 5).into_vec();
            let support: Vec<_> = classes.iter().map(|&c| image(c, rng.random_range(0..10))).collect();
            let label = rng.random_range(0..5);
            let query = image(classes[label], rng.random_range(10..20));
            let nearest = (0..5).min_by_key(|&k| distance(&query, &support[k]));
            right += u64::from(nearest == Some(label));
        }
        let accuracy = right as f64 / episodes as f64;
        assert!((0.45..0.65).contains(&accuracy), "{accuracy}");
    }
}
