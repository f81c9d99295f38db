//! Images per second on one core, from the packed cache's form (shorter side 112) to the network's input.
//!
//! Run with `cargo bench -p siskin-data --bench augment`. A sample is one image, short enough to be seldom interrupted
//! on a busy machine; read the median. The rate is `Kitem/s`.

use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use siskin_data::image::augment::{Augmentation, LEAST_AREA};
use siskin_data::image::resize::{CropBox, resized_crop};
use siskin_data::{
    Channels, ClassImages, Dataset, EpisodeSpec, Image, Items, LoadedEpisode, Sampler, Split, SplitName,
    Transform,
};
use siskin_random::stream_at;

fn main() {
    divan::main();
}

/// Images of a run: landscape and portrait photographs of different sizes.
const IMAGES: usize = 64;

fn photographs() -> Vec<Image> {
    let photograph = |i: usize| {
        let long = 112 + (i as u32 * 7) % 80;
        let (width, height) = if i.is_multiple_of(3) { (112, long) } else { (long, 112) };
        let pixels = (0..width * height * 3).map(|p| (p / 3 + p % 251 * (i as u32 + 1)) as u8).collect();
        Image { width, height, channels: 3, pixels }
    };
    (0..IMAGES).map(photograph).collect()
}

fn run(bencher: Bencher<'_, '_>, transform: Transform) {
    let images = photographs();
    let mut out = vec![0.0; transform.len()];
    let mut index = 0;
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        let mut rng = stream_at(0, "augment", 0, index);
        transform.apply(&images[index as usize % IMAGES].as_ref(), &mut rng, black_box(&mut out));
        index += 1;
    });
}

/// What a pack checks of an image when it is first asked for, once per process.
#[divan::bench(sample_count = 2000)]
fn checksum(bencher: Bencher<'_, '_>) {
    let images = photographs();
    let mut index = 0;
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        index += 1;
        black_box(blake3::hash(black_box(&images[index % IMAGES].pixels)))
    });
}

#[divan::bench(sample_count = 2000)]
fn augmented_84(bencher: Bencher<'_, '_>) {
    run(bencher, Transform { size: 84, channels: Channels::Three, augment: Some(LEAST_AREA) });
}

#[divan::bench(sample_count = 2000)]
fn evaluated_84(bencher: Bencher<'_, '_>) {
    run(bencher, Transform { size: 84, channels: Channels::Three, augment: None });
}

#[divan::bench(sample_count = 2000)]
fn evaluated_28(bencher: Bencher<'_, '_>) {
    run(bencher, Transform { size: 28, channels: Channels::One, augment: None });
}

/// A training episode of 5 x (1 + 16) images: what one loader thread does for each optimiser step.
#[divan::bench(sample_count = 100)]
fn episode_of_85(bencher: Bencher<'_, '_>) {
    let images = photographs();
    let class = |c: usize| ClassImages {
        name: c.to_string(),
        domain: String::new(),
        images: (0..20).map(|i| (i.to_string(), images[(c * 20 + i) % IMAGES].clone())).collect(),
    };
    let data = Dataset::in_memory("photographs", (0..20).map(class).collect()).expect("well formed");
    let split = Split::all(SplitName::Train, Items::Images(Arc::new(data)));
    let sampler = Sampler::new(vec![split], EpisodeSpec::fixed(5, 1, 16), 0).expect("enough images");
    let transform = Transform { size: 84, channels: Channels::Three, augment: Some(LEAST_AREA) };
    let mut index = 0;
    bencher.counter(ItemsCount::new(85usize)).bench_local(|| {
        index += 1;
        LoadedEpisode::load(&sampler, &transform, 0, index)
    });
}

/// The draws alone: key derivation, crop, factors.
#[divan::bench(sample_count = 2000)]
fn draws(bencher: Bencher<'_, '_>) {
    let mut index = 0;
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        index += 1;
        Augmentation::draw(150, 112, LEAST_AREA, &mut stream_at(0, "augment", 0, index))
    });
}

/// The resampling alone, of the average crop.
#[divan::bench(sample_count = 2000)]
fn resized_crop_84(bencher: Bencher<'_, '_>) {
    let images = photographs();
    let crop = CropBox { left: 10, top: 10, width: 90, height: 82 };
    let mut index = 0;
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        index += 1;
        resized_crop(&images[index % IMAGES].as_ref(), crop, 84, 84)
    });
}
