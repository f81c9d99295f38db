//! `siskin doctor`: what this machine can do.

use crate::data::source::CacheArgs;
use siskin_adapt::{EMBEDDED, Example, Image, LabelledImages, Model, Rules, TaskClassifier, View};
use siskin_nn::DeviceChoice;
use std::path::Path;
use std::time::Instant;

/// Arguments of `siskin doctor`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  siskin doctor")]
pub(crate) struct Args {
    #[command(flatten)]
    cache: CacheArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    say!("siskin {} for {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    say!("\nProcessor");
    let cores = std::thread::available_parallelism().map_or_else(|e| e.to_string(), |n| n.to_string());
    say!("  cores            {cores}; used {}", rayon::current_num_threads());
    let sets: Vec<&str> = siskin_cpu::Isa::available().into_iter().map(siskin_cpu::Isa::name).collect();
    say!("  vectors          {} (of {})", siskin_cpu::Isa::detect().name(), sets.join(", "));

    say!("\nDevices");
    for device in [DeviceChoice::Cpu, DeviceChoice::Cuda, DeviceChoice::Wgpu, DeviceChoice::Metal] {
        match device.open() {
            Ok(_) => say!("  {:16} ready", device.name()),
            Err(why) => say!("  {:16} {why}", device.name()),
        }
    }

    say!("  {:16} {}", "ONNX networks", siskin_adapt::foreign::engine());

    say!("\nEmbedded models");
    for (name, bytes) in EMBEDDED {
        let model = Model::open(name)?;
        say!("  {name}  {} bytes, hash {}", bytes.len(), &model.hash()[..12]);
        if let Some(test) = &model.card()?.test {
            say!(
                "    {}-way {}-shot: accuracy {:.2} ± {:.2} %, ECE {:.3} after tuning ({} test episodes of {})",
                test.way,
                test.shot,
                100.0 * test.accuracy.mean,
                100.0 * test.accuracy.spread,
                test.tuned.ece,
                test.episodes,
                model.card()?.data.split(':').next().unwrap_or_default()
            );
        }
        say!("    {}", try_out(&model)?);
    }

    say!("\nCache");
    match args.cache.open() {
        Err(why) => say!("  {why}"),
        Ok(cache) => {
            say!("  folder           {}: {}", cache.folder().display(), state_of(cache.folder()));
            let names = cache.names();
            let list =
                if names.is_empty() { "none yet (siskin data import)".into() } else { names.join(", ") };
            say!("  imported data    {list}");
        }
    }
    Ok(())
}

/// Adapts to five patterns and asks for each: the whole path, timed.
fn try_out(model: &Model) -> anyhow::Result<String> {
    let (side, channels) = model.input();
    let image = |k: u32| {
        let pixel = |i: u32| if (i % side) / (k + 2) % 2 == (i / side) / (2 * k + 3) % 2 { 0u8 } else { 255 };
        let pixels = (0..side * side).flat_map(|i| std::iter::repeat_n(pixel(i), channels)).collect();
        Image { width: side, height: side, channels: channels as u8, pixels }
    };
    let examples: Vec<Example> = (0..5)
        .map(|k| Example { name: format!("{k}"), class: k as usize, view: model.view(&image(k)) })
        .collect();
    let support = LabelledImages::new((0..5).map(|k| format!("pattern {k}")).collect(), examples)?;
    let start = Instant::now();
    let task = TaskClassifier::adapt(model, &support, "patterns")?;
    let adapted = start.elapsed();
    let thresholds = task.thresholds(&Rules::default())?;
    let start = Instant::now();
    let views: Vec<View> = (0..5).map(|k| model.view(&image(k))).collect();
    let answers = task.answer(&model.embed(&views)?, &thresholds)?;
    let predicted = start.elapsed() / 5;
    let right = answers.iter().enumerate().filter(|(k, answer)| answer.label == *k).count();
    anyhow::ensure!(
        right == 5,
        "the model tells only {right} of 5 plain patterns apart: it or this build is broken"
    );
    Ok(format!(
        "tried: adapts to five patterns in {:.0} ms, answers in {:.1} ms each, all right",
        1e3 * adapted.as_secs_f64(),
        1e3 * predicted.as_secs_f64()
    ))
}

fn state_of(folder: &Path) -> &'static str {
    match std::fs::metadata(folder) {
        Err(_) => "not made yet",
        Ok(meta) if meta.permissions().readonly() => "read-only",
        Ok(meta) if !meta.is_dir() => "not a folder",
        Ok(_) => "ready",
    }
}
