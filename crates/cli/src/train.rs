//! `siskin train`: meta-train a method by a config.

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use crate::model::tell_notice;
use crate::training_bar::TrainingBar;
use crate::watch::human;
use anyhow::Context;
use siskin_data::shell::quoted;
use siskin_methods::MethodName;
use siskin_train::checkpoint::Best;
use siskin_train::config::Config;
use siskin_train::reproduce::{PhaseCost, predict};
use siskin_train::run::Run;
use siskin_train::trainer::Outcome;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `siskin train`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin train configs/omniglot-1shot.toml --out runs/omniglot
  siskin train configs/omniglot-1shot.toml --set train.episodes=500 --set cdkt.objective=elbo --set cdkt.inference=joint
  siskin train configs/omniglot-1shot.toml --method proto-net
  siskin train configs/omniglot-1shot.toml --plan    how long it would take, and how much memory
  siskin train --resume runs/omniglot
  siskin train --replay runs/omniglot      the steps that made a run stop with non-finite gradients, once more

Ctrl-C once saves and stops, and so do SIGTERM, SIGUSR1 and SIGHUP (a job scheduler, a closed terminal); the exit code is then
130, 143 or 129. --resume goes on as if training had never stopped.")]
pub(crate) struct Args {
    /// The config file (TOML). See configs/.
    #[arg(required_unless_present_any = ["resume", "replay"], conflicts_with_all = ["resume", "replay"])]
    config: Option<PathBuf>,
    /// The method, in place of the config's: the same as --set method=NAME. `siskin methods` lists them.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "replay"])]
    method: Option<MethodName>,
    /// Change one key of the config, e.g. --set train.episodes=500. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with_all = ["resume", "replay"])]
    set: Vec<String>,
    /// The run folder to write. Default: runs/ and the name of the config (and of --method).
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["resume", "replay"])]
    out: Option<PathBuf>,
    /// Go on with the run in this folder from its newest checkpoint.
    #[arg(long, value_name = "FOLDER")]
    resume: Option<PathBuf>,
    /// Take the steps again that stopped the run in this folder with non-finite gradients; nothing is written.
    #[arg(long, value_name = "FOLDER", conflicts_with = "resume")]
    replay: Option<PathBuf>,
    /// Say how long the training would take on this machine and how much memory, and stop: a few episodes are timed.
    #[arg(long, conflicts_with_all = ["resume", "replay", "out"])]
    plan: bool,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl Args {
    /// Whether ranks share the work: a plan times one process, and a replay is short.
    pub(crate) fn shares_its_work(&self) -> bool {
        !self.plan && self.replay.is_none()
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if let (true, Some(path)) = (args.plan, &args.config) {
        let mut config = Config::load_by(path, &args.set, args.method)?;
        args.compute.apply(&mut config);
        return plan(&config);
    }
    if let Some(folder) = &args.replay {
        let steps =
            args.read.with_opener(args.read.on_bad(), |opener| anyhow::Ok(Run::replay(folder, opener)?))?;
        for (first, report) in steps {
            let verdict = if report.taken { "the gradient is finite" } else { "the gradient is not finite" };
            say!("episode {first}: loss {}, {verdict}", report.loss);
        }
        return Ok(());
    }
    if args.resume.is_some() && args.compute.given() {
        anyhow::bail!("--resume goes on as the run began: --device and --precision cannot be changed");
    }
    let mut run = args.read.with_opener(args.read.on_bad(), |opener| match (&args.resume, &args.config) {
        (Some(folder), _) => anyhow::Ok(Run::resume(folder, opener)?),
        (None, Some(path)) => {
            let mut config = Config::load_by(path, &args.set, args.method)?;
            args.compute.apply(&mut config);
            let name = path.file_stem().context("the config has no file name")?.to_string_lossy();
            // The same config by two methods makes two runs.
            let name = args.method.map_or(name.to_string(), |method| format!("{name}-{method}"));
            let out = args.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(name));
            Ok(Run::start(&out, config, opener)?)
        }
        (None, None) => unreachable!("clap asks for a config or --resume"),
    })?;
    tell_notice(run.trainer().notice());
    let outcome = train(&mut run)?;
    let (folder, word) = (run.folder().path().display(), quoted(run.folder().path()));
    match outcome {
        Outcome::Stopped => {
            say!(
                "Stopped at episode {} and saved. Go on with: siskin train --resume {word}",
                run.trainer().episode()
            );
            crate::stop::check()?;
        }
        Outcome::Finished => {
            if let Some(Best { accuracy, nll, episode }) = run.trainer().best() {
                let nll = nll.map_or(String::new(), |nll| format!(", NLL {nll:.4},"));
                say!("Best validation: accuracy {:.2} %{nll} at episode {episode}.", 100.0 * accuracy);
            }
            if run.trainer().skipped() > 0 {
                say!("{} steps were skipped because a gradient was not finite.", run.trainer().skipped());
            }
            if run.trainer().validations_without_accuracy() > 0 {
                say!(
                    "Validations without an accuracy, because a prediction was not finite: {}. A smaller \
                     train.learning_rate is the usual cure.",
                    run.trainer().validations_without_accuracy()
                );
            }
            if let Some(mib) = run.trainer().extra_memory_mib() {
                say!("Beside the model, adapting to a task takes {mib:.1} MiB.");
            }
            let page = run.folder().path().join("report.html");
            siskin_train::atomic::write(&page, siskin_train::report::of_training(&run)?.as_bytes())?;
            say!("The run is in {folder}, with report.html. Next: siskin test {word}");
        }
    }
    Ok(())
}

/// What a training by `config` would take.
fn plan(config: &Config) -> anyhow::Result<()> {
    let costs = predict(config)?;
    let hours = |seconds: f64| human(Duration::from_secs_f64(seconds));
    let mut sum = (0, 0.0, 0.0);
    for PhaseCost { name, timing, cost } in &costs {
        let name = name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        let each = 1e3 * timing.wall.train;
        say!(
            "{name}{} episodes of {each:.1} ms: {}, CPU time {}",
            cost.episodes,
            hours(cost.wall),
            hours(cost.cpu)
        );
        sum = (sum.0 + cost.episodes, sum.1 + cost.wall, sum.2 + cost.cpu);
    }
    let threads = rayon::current_num_threads();
    say!(
        "In all {} episodes: about {} on {threads} threads of this machine as busy as it is now, CPU time {}; validations, tuning and \
         test are in it, fits of scalars are not.",
        sum.0,
        hours(sum.1),
        hours(sum.2)
    );
    if let Some(mib) = peak_mib() {
        say!(
            "Memory: about {mib:.0} MiB, as measured on drawn images of this size; files of images are mapped, not loaded."
        );
    }
    Ok(())
}

/// The most memory that this process had at a time, in MiB, where the system tells.
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

/// Trains to the end or to a signal, with a progress bar.
pub(crate) fn train(run: &mut Run) -> anyhow::Result<Outcome> {
    let mut bar = TrainingBar::new(run.length(), run.trainer().episode())?;
    if let Some(due) = run.trainer().first_save() {
        bar.say(due);
    }
    let outcome = crate::stop::saving(|stop| run.train(stop, &mut |event| bar.show(event)));
    bar.finish();
    Ok(outcome?)
}
