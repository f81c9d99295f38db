//! `siskin model try`: does a network make sense of these images? A wrong preset shows in nearest images of other folders.

use super::registry;
use anyhow::Context;
use siskin_adapt::foreign::{Preset, Registry};
use siskin_adapt::{Features, Inputs, Intake, Model, View};
use std::path::{Path, PathBuf};

/// Most images that are tried.
const MOST: usize = 200;
/// Images shown one by one.
const SHOWN: usize = 12;

/// Arguments of `siskin model try`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  siskin model try lite0 photos               a folder with one folder of images per class
  siskin model try lite0 photos --presets     the same with the preprocessing of every preset beside")]
pub(super) struct Args {
    /// The name it was added under
    name: String,
    /// Images, or folders of images; at most 200 are taken
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// Try the preprocessing of every preset: one that is far from the right one finds fewer neighbours of the same folder
    #[arg(long)]
    presets: bool,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let registry = registry()?;
    let model = Model::added(&registry, &args.name)?;
    let (names, features) = embedded(&model, &args.images)?;
    let nearest = nearest(&features);
    say!("image, norm of its features, nearest other image and the cosine between them");
    for (i, name) in names.iter().enumerate().take(SHOWN) {
        let norm = row(&features, i).iter().map(|v| v * v).sum::<f64>().sqrt();
        match nearest[i] {
            Some((other, cosine)) => {
                say!("  {}  {norm:.3}  {}  {cosine:.3}", short(name), short(&names[other]));
            }
            None => say!("  {}  {norm:.3}", short(name)),
        }
    }
    if names.len() > SHOWN {
        say!("  and {} more", names.len() - SHOWN);
    }
    say!("{}", verdict(&names, &features));
    if args.presets {
        beside(&registry, &args, &names)?;
    }
    Ok(())
}

/// The same with the preprocessing of every preset.
fn beside(registry: &Registry, args: &Args, names: &[String]) -> anyhow::Result<()> {
    say!("\nThe same images with the preprocessing of each preset:");
    for (preset_name, preset) in Preset::NAMED {
        let network = registry.open(&args.name)?;
        let size = network.spec().preprocessing.size;
        let model = Model::of_network(&args.name, network.with_preprocessing(preset.preprocessing(size)));
        let line = match embedded(&model, &args.images) {
            Ok((_, features)) => verdict(names, &features),
            Err(why) => format!("{why}"),
        };
        say!("  {preset_name:18} {line}");
    }
    Ok(())
}

/// Names of the images that can be read, and their features as the network gives them.
fn embedded(model: &Model, images: &[PathBuf]) -> anyhow::Result<(Vec<String>, Features)> {
    let mut inputs = Inputs::new(images, None);
    let (mut names, mut views): (Vec<String>, Vec<View>) = (Vec::new(), Vec::new());
    for input in inputs.batch(MOST, model, &Intake::default())? {
        match input.view {
            Ok(view) => {
                names.push(input.path);
                views.push(view);
            }
            Err(fault) => tell!("left out: {}: {fault}", input.path),
        }
    }
    anyhow::ensure!(!views.is_empty(), "There is no image to try.");
    let features = model
        .raw_features(&views, &std::sync::atomic::AtomicBool::new(false))
        .context("trying the network")?;
    Ok((names, features))
}

fn row(features: &Features, i: usize) -> &[f64] {
    &features.values[i * features.dim..(i + 1) * features.dim]
}

/// Of each image the nearest other one, and the cosine between them.
fn nearest(features: &Features) -> Vec<Option<(usize, f64)>> {
    let mut unit = features.clone();
    siskin_adapt::unit(&mut unit);
    let cosine =
        |i: usize, j: usize| row(&unit, i).iter().zip(row(&unit, j)).map(|(a, b)| a * b).sum::<f64>();
    let best = |i: usize| {
        let others = (0..unit.rows).filter(|&j| j != i).map(|j| (j, cosine(i, j)));
        others.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    (0..unit.rows).map(best).collect()
}

/// The last folder and the name of a file.
fn short(path: &str) -> String {
    let parts: Vec<_> = Path::new(path).components().rev().take(2).collect();
    parts.into_iter().rev().collect::<PathBuf>().display().to_string()
}

/// How many nearest images lie in the same folder, and how often one of the same folder is nearer than one of another: the first is for people,
/// the second tells presets apart that are nearly alike.
fn verdict(names: &[String], features: &Features) -> String {
    let nearest = nearest(features);
    let folder = |i: usize| Path::new(&names[i]).parent().map(Path::to_path_buf);
    let mut folders: Vec<_> = (0..names.len()).map(folder).collect();
    folders.sort();
    folders.dedup();
    if folders.len() < 2 {
        return "Give a folder with one folder of images per class to see how many neighbours are of the same class.".into();
    }
    let hits =
        nearest.iter().enumerate().filter(|(i, near)| near.is_some_and(|(j, _)| folder(*i) == folder(j)));
    let hits = hits.count();
    let mut unit = features.clone();
    siskin_adapt::unit(&mut unit);
    let cosine =
        |i: usize, j: usize| row(&unit, i).iter().zip(row(&unit, j)).map(|(a, b)| a * b).sum::<f64>();
    let (mut nearer, mut compared) = (0usize, 0usize);
    for i in 0..names.len() {
        let of = |same: bool| (0..names.len()).filter(move |&j| j != i && (folder(i) == folder(j)) == same);
        let others: Vec<f64> = of(false).map(|j| cosine(i, j)).collect();
        for same in of(true).map(|j| cosine(i, j)) {
            nearer += others.iter().filter(|other| same > **other).count();
            compared += others.len();
        }
    }
    let share = 100.0 * nearer as f64 / compared.max(1) as f64;
    let all = names.len();
    format!(
        "{hits} of {all} nearest images lie in the same folder; images of the same folder are nearer than others in {share:.1} % of \
         comparisons"
    )
}
