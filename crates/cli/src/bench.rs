//! `siskin bench`: how long an episode takes on this machine.

use crate::compute::ComputeArgs;
use anyhow::Context;
use siskin_train::bench::{self, BenchReport, Case, CaseReport, Parts, Times, Work};
use siskin_train::config::Config;

/// Arguments of `siskin bench`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin bench --threads 1                 CPU time is the number to trust on a busy machine
  siskin bench --side 84 --shot 1 --json   one case, for a script
  siskin bench --side 28 --way 20 --shot 1 --query 4
  siskin bench --way 20 --shot 1 --query 4 --objective predictive --inference joint --steps 5

Images are synthetic; reading them from disk is not timed. GFLOP/s counts the convolutions by their definition and
divides by CPU time; the kernels make fewer operations (Winograd), so it can exceed the peak of a core. The shares of the
Gaussian process are found by doing its parts once more, alone. To compare with PyTorch: scripts/bench_vs_torch.py.")]
pub(crate) struct Args {
    /// Rounds; the medians are shown.
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Only images of this side: 28 has Conv4S, any other Conv4 [default: 28 and 84]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u16).range(16..=512))]
    side: Option<u16>,
    /// Classes of an episode [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=200))]
    way: Option<u16>,
    /// Only episodes with so many support images of each class [default: 1 and 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    shot: Option<u16>,
    /// Queries of each class [default: 16 in training, 15 at test]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    query: Option<u16>,
    /// What training maximises, as `cdkt.objective`: direct, predictive, elbo, released or released-predictive
    #[arg(long, value_name = "NAME")]
    objective: Option<String>,
    /// How training infers, as `cdkt.inference`: natural, joint, collapsed or paper
    #[arg(long, value_name = "NAME")]
    inference: Option<String>,
    /// Steps of it, as `cdkt.steps`
    #[arg(long, value_name = "N")]
    steps: Option<u32>,
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
    let mut config = Config::parse("", &args.settings())?;
    args.compute.apply(&mut config);
    let cases = args.cases();
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

impl Args {
    /// What `--set` and the flags for its most used keys say.
    fn settings(&self) -> Vec<String> {
        let named = [
            ("objective", self.objective.clone()),
            ("inference", self.inference.clone()),
            ("steps", self.steps.map(|steps| steps.to_string())),
        ];
        let named = named.into_iter().filter_map(|(key, value)| Some(format!("cdkt.{key}={}", value?)));
        self.set.iter().cloned().chain(named).collect()
    }

    /// The paper's two sizes with one and five support images, or what was asked for.
    fn cases(&self) -> Vec<Case> {
        let given = |value: Option<u16>, others: [usize; 2]| match value {
            Some(value) => vec![usize::from(value)],
            None => others.to_vec(),
        };
        let shots = given(self.shot, [1, 5]);
        let of = |side: usize| shots.iter().map(move |&shot| Case::paper(side, shot)).collect::<Vec<Case>>();
        let mut cases: Vec<Case> = given(self.side, [28, 84]).into_iter().flat_map(of).collect();
        for case in &mut cases {
            case.way = self.way.map_or(case.way, usize::from);
            case.train_query = self.query.map_or(case.train_query, usize::from);
            case.test_query = self.query.map_or(case.test_query, usize::from);
        }
        cases
    }
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
        rows(case, "training", &case.train, report.peak_gflop_per_core_second);
        case.work.iter().for_each(work);
        rows(case, "test", &case.test, report.peak_gflop_per_core_second);
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

/// What the Gaussian process does in a training episode.
fn work(work: &Work) {
    say!(
        "      {} steps, integrals {} times: quadrature {:.0} %, linear algebra {:.0} %, kernel {:.0} %",
        work.steps,
        work.evaluations,
        100.0 * work.quadrature,
        100.0 * work.algebra,
        100.0 * work.kernel
    );
}
