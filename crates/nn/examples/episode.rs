//! Times training episodes of the fused and the plain path in turn, and watches the memory of the process.
//!
//! `cargo run --release -p siskin-nn --example episode -- [conv4|conv4s|conv6|resnet12] [side] [episodes]`

use std::time::Instant;

use siskin_nn::{Architecture, Backbone, DeviceChoice, Error, Features, HeadLoss, Images, Network, Step};

/// Images of a 5-way 1-shot episode with 16 queries per class.
const IMAGES: usize = 85;

fn head(f: &Features) -> Result<HeadLoss, Error> {
    let loss = f.values.iter().map(|v| v * v).sum::<f64>() / 2.0;
    Ok(HeadLoss { loss, dfeatures: f.values.clone(), dhyper: vec![], accuracy: None })
}

fn train(network: &mut Network, images: Images<'_>) -> Result<f64, Error> {
    let start = Instant::now();
    let mut step = Step::default();
    network.episode(images, &mut step, head)?;
    network.apply(step, 1e-3);
    Ok(start.elapsed().as_secs_f64())
}

fn evaluate(network: &Network, images: Images<'_>) -> Result<f64, Error> {
    let start = Instant::now();
    network.features(images)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Resident memory in MB, where the system tells it.
fn memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let architecture: Architecture = arguments.first().map_or("conv4s", String::as_str).parse()?;
    let side: usize = arguments.get(1).map_or(Ok(28), |s| s.parse())?;
    let episodes: usize = arguments.get(2).map_or(Ok(300), |s| s.parse())?;

    let shape = [IMAGES, architecture.channels(), side, side];
    let count: usize = shape.iter().product();
    let pixels: Vec<f32> = (0..count).map(|i| (i * 7919 % 2003) as f32 / 1001.5 - 1.0).collect();
    let images = Images::new(&pixels, shape)?;
    let fused = Backbone::new(architecture, 0, &DeviceChoice::Cpu.open()?);
    let mut plain = Network::of(fused.clone().unfused());
    let mut fused = Network::of(fused);

    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..3 {
        times[0].push(train(&mut fused, images)?);
        times[1].push(train(&mut plain, images)?);
        times[2].push(evaluate(&fused, images)?);
        times[3].push(evaluate(&plain, images)?);
    }
    let [train_fused, train_plain, eval_fused, eval_plain] = times.map(median);
    println!("{architecture}, {IMAGES} images of {side} x {side}, median of 3, seconds");
    println!(
        "training    fused {train_fused:.4}  plain {train_plain:.4}  ratio {:.1}",
        train_plain / train_fused
    );
    println!(
        "evaluation  fused {eval_fused:.4}  plain {eval_plain:.4}  ratio {:.1}",
        eval_plain / eval_fused
    );

    for episode in 0..=episodes {
        train(&mut fused, images)?;
        if episode % (episodes / 6).max(1) == 0
            && let Some(megabytes) = memory()
        {
            println!("episode {episode}: {megabytes:.1} MB");
        }
    }
    Ok(())
}
