//! `siskin figures`: the paper's figures as SVG and PNG.

use anyhow::{Context, bail};
use siskin_methods::gp::cdkt::CdktSettings;
use siskin_train::plot::{LineChart, Series, confidence_histograms, likelihood_surfaces, render_png};
use siskin_train::protocol::TestReport;
use siskin_train::run_folder::RunFolder;
use std::path::{Path, PathBuf};

/// Arguments of `siskin figures`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin figures                                  likelihood surfaces and confidence histogram
  siskin figures --steps runs/cub-*steps          also accuracy against steps, from runs that were tested")]
pub(crate) struct Args {
    /// The folder to write to.
    #[arg(long, value_name = "FOLDER", default_value = "figures")]
    out: PathBuf,
    /// Run folders that differ in cdkt.steps, each after `siskin test`.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    steps: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let steps = match args.steps.is_empty() {
        true => None,
        false => Some(accuracy_against_steps(&args.steps)?),
    };
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    write(&args.out, "likelihood-surfaces", &likelihood_surfaces()?)?;
    write(&args.out, "confidence-histogram", &confidence_histograms(0, &[1.0])?.svg())?;
    if let Some(svg) = steps {
        write(&args.out, "accuracy-steps", &svg)?;
    }
    Ok(())
}

/// Writes a chart as SVG and as PNG.
fn write(folder: &Path, name: &str, svg: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    siskin_train::atomic::write(&path.with_extension("svg"), svg.as_bytes())?;
    siskin_train::atomic::write(&path.with_extension("png"), &render_png(svg, 2.0)?)?;
    say!("{}.svg and .png", path.display());
    Ok(())
}

/// Test accuracy of several runs over the steps they were trained with.
fn accuracy_against_steps(runs: &[PathBuf]) -> anyhow::Result<String> {
    let mut points = Vec::new();
    for run in runs {
        let config = RunFolder::open(run)?.config()?;
        let path = run.join("test.json");
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "{} is not there: run `siskin test {}` first",
                path.display(),
                siskin_data::shell::quoted(run)
            )
        })?;
        let report: TestReport =
            serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        let cdkt: &CdktSettings = config.method.get().with_context(|| {
            format!("{} is a run of {}: --steps takes runs of cdkt", run.display(), config.method.name())
        })?;
        points.push((cdkt.steps as f64, report.over_groups.mean, report.over_groups.spread));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    if points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        bail!("two of the runs have the same number of steps (cdkt.steps): give one run for each");
    }
    let series = Series {
        name: "test accuracy".into(),
        points: points.iter().map(|p| (p.0, p.1)).collect(),
        spread: points.iter().map(|p| p.2).collect(),
    };
    let chart = LineChart {
        title: "Accuracy against mean-field steps in training".into(),
        x_name: "steps".into(),
        y_name: "accuracy".into(),
        series: vec![series],
    };
    Ok(chart.svg())
}
