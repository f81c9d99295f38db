//! Images a second on one core, from the packed cache's form (shorter side 112) to the network's input.
//!
//! Run with `cargo bench -p siskin-data --bench augment`. The rate is `Kitem/s`.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use siskin_data::image::augment::Augmentation;
use siskin_data::image::resize::{CropBox, resized_crop};
use siskin_data::random::stream_at;
use siskin_data::{Channels, Image, Transform};

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
    bencher.counter(ItemsCount::new(IMAGES)).bench_local(|| {
        for (i, image) in images.iter().enumerate() {
            let mut rng = stream_at(0, "augment", 0, i as u64);
            transform.apply(&image.as_ref(), &mut rng, black_box(&mut out));
        }
    });
}

#[divan::bench]
fn augmented_84(bencher: Bencher<'_, '_>) {
    run(bencher, Transform { size: 84, channels: Channels::Three, augment: true });
}

#[divan::bench]
fn evaluated_84(bencher: Bencher<'_, '_>) {
    run(bencher, Transform { size: 84, channels: Channels::Three, augment: false });
}

#[divan::bench]
fn evaluated_28(bencher: Bencher<'_, '_>) {
    run(bencher, Transform { size: 28, channels: Channels::One, augment: false });
}

/// The draws alone: key derivation, crop, factors.
#[divan::bench]
fn draws(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(IMAGES)).bench_local(|| {
        for i in 0..IMAGES as u64 {
            black_box(Augmentation::draw(150, 112, &mut stream_at(0, "augment", 0, i)));
        }
    });
}

/// The resampling alone, of the average crop.
#[divan::bench]
fn resized_crop_84(bencher: Bencher<'_, '_>) {
    let images = photographs();
    let crop = CropBox { left: 10, top: 10, width: 90, height: 82 };
    bencher.counter(ItemsCount::new(IMAGES)).bench_local(|| {
        for image in &images {
            black_box(resized_crop(&image.as_ref(), crop, 84, 84));
        }
    });
}
