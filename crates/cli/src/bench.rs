//! `siskin bench`: how long an episode takes on this machine.

use crate::compute::ComputeArgs;
use anyhow::Context;
use siskin_train::bench::{self, BenchReport, Case, CaseReport, Parts, Times};
use siskin_train::config::Config;

/// Arguments of `siskin bench`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin bench --threads 1                 CPU time is the number to trust on a busy machine
  siskin bench --side 84 --shot 1 --json   one case, for a script
  siskin bench --set cdkt.objective=elbo --set cdkt.inference=joint

Images are synthetic; reading them from disk is not timed. GFLOP/s counts the convolutions by their definition and
divides by CPU time; the kernels make fewer operations (Winograd), so it can exceed the peak of a core. To compare with
PyTorch: scripts/bench_vs_torch.py.")]
pub(crate) struct Args {
    /// Rounds; the medians are shown.
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Only images of this side: 28 (Conv4S) or 84 (Conv4).
    #[arg(long, value_name = "PIXELS")]
    side: Option<usize>,
    /// Only episodes with so many support images of each class: 1 or 5.
    #[arg(long, value_name = "N")]
    shot: Option<usize>,
    /// Change one key under `[cdkt]` or `[backbone]` of the default config. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the times as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut config = Config::parse("", &args.set)?;
    args.compute.apply(&mut config);
    let cases: Vec<Case> = (Case::PAPER.into_iter())
        .filter(|case| args.side.is_none_or(|side| side == case.side))
        .filter(|case| args.shot.is_none_or(|shot| shot == case.shot))
        .collect();
    if cases.is_empty() {
        anyhow::bail!("there is no such case: --side is 28 or 84, --shot is 1 or 5");
    }
    let device = siskin_train::run::device(&config)?;
    let cdkt = config.method.get().context("only cdkt is timed: leave `method` as it is")?;
    let report = bench::run(&cases, cdkt, device, args.repeats as usize, &mut |case| {
        if !args.json {
            tell!("{} on {} px, {}-shot: done", case.backbone, case.side, case.shot);
        }
    })?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &BenchReport) {
    say!(
        "{}, {}, {} thread(s), f32 peak {:.0} GFLOP/s per core; medians of {} rounds",
        report.precision,
        report.instructions,
        report.threads,
        report.peak_gflop_per_core_second,
        report.repeats
    );
    say!("{:38}{:>9}{:>9}{:>10}{:>9}{:>9}", "", "wall ms", "CPU ms", "images/s", "GFLOP/s", "of peak");
    for case in &report.cases {
        for (name, parts) in [("training", &case.train), ("test", &case.test)] {
            rows(case, name, parts, report.peak_gflop_per_core_second);
        }
    }
}

fn rows(case: &CaseReport, name: &str, parts: &Parts, peak: f64) {
    let title = format!("{} {} px, {}-way {}-shot, {name}", case.backbone, case.side, case.way, case.shot);
    let line = |label: &str, times: &Times, rest: String| {
        let cpu = times.cpu.map_or("-".into(), |cpu| format!("{:.1}", 1e3 * cpu));
        say!("{label:38}{:>9.1}{cpu:>9}{rest}", 1e3 * times.wall);
    };
    line(&title, &parts.whole, format!("{:>10.0}", parts.images_per_second));
    let rate = format!(
        "{:>10.0}{:>9.0}{:>8.0}%",
        parts.images as f64 / parts.backbone.wall,
        parts.gflop_per_core_second,
        100.0 * parts.gflop_per_core_second / peak
    );
    line("    network", &parts.backbone, rate);
    line("    Gaussian process", &parts.gp, String::new());
}
