//! `siskin compare`: several methods, the same episodes, one table.

use crate::compute::ComputeArgs;
use crate::data::source::ReadArgs;
use anyhow::Context;
use clap::ValueEnum;
use siskin_methods::MethodName;
use siskin_train::compare::{Compared, Examined, Outcome, SameTest, compare, examine, same_test, unfinished};
use siskin_train::config::{Config, DataConfig};
use siskin_train::trainer;
use siskin_train::under_test::config_of;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Arguments of `siskin compare`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin compare configs/omniglot-1shot.toml --methods proto-net,dkt,cdkt --set train.episodes=2000 --out runs/compare
  siskin compare configs/omniglot-1shot.toml --methods dkt,cdkt --run old=runs/omniglot --reference old
  siskin compare --run runs/a --run runs/b --set test.shot=5      runs trained before, no training
  siskin compare --run a.safetensors --run runs/b --data cub --episodes cub-5shot.jsonl

Each method trains in its own folder below --out. The command can be stopped and given again: a method that is trained is
not trained again, one that was stopped goes on. A method that fails is reported, the others go on.
Every method answers the same test episodes. Differences are taken episode by episode, with 95 % intervals.
Written below --out: report.html, compare.md, compare.csv, compare.txt, compare.json.")]
pub(crate) struct Args {
    /// The config file (TOML) that every method is trained and tested by.
    #[arg(required_unless_present = "runs")]
    config: Option<PathBuf>,
    /// Methods to train, with commas between. `siskin methods` lists them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "config")]
    methods: Vec<MethodName>,
    /// A run that `siskin train` wrote, or a model file of `siskin export`, to be compared too, under a name of its own or
    /// that of its folder or file. May be given several times.
    #[arg(long = "run", value_name = "[NAME=]MODEL")]
    runs: Vec<String>,
    /// The data that model files are tested on [default: that of the config]
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    /// Test on the episodes of this list (`siskin data episodes`), in place of those of the config
    #[arg(long, value_name = "FILE")]
    episodes: Option<PathBuf>,
    /// Change one key of the config, e.g. --set train.episodes=500. Without a config: of the test alone, e.g.
    /// --set test.shot=5. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The method (or name of a run) that differences are taken to [default: cdkt if it is there, else the first]
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
    /// The folder to write.
    #[arg(long, value_name = "FOLDER", default_value = "runs/compare")]
    out: PathBuf,
    /// What to print; all of them are written.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Csv,
    Json,
}

/// A method to be compared.
struct Entry {
    name: String,
    folder: PathBuf,
    /// How to train it; nothing for a run given as it is.
    config: Option<Config>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let entries = entries(&args)?;
    let reference = reference(&args, &entries)?;
    // The test episodes of all: those of the config, or of the first run.
    let (test, data) = match &entries[0].config {
        Some(config) => (same_test(config)?, Some(config.data.clone())),
        None => (same_test(&config_of(&entries[0].folder)?.changed(&args.set)?)?, None),
    };
    let named = args.data.as_ref().map(|name| DataConfig { train: name.clone(), ..DataConfig::default() });
    let same = SameTest {
        test,
        data: named.or(data),
        episodes: args.episodes.clone(),
        settings: args.compute.settings(),
    };
    let mut outcomes = Vec::new();
    for entry in &entries {
        let result = match trained(entry, &args.read) {
            Ok(trainer::Outcome::Finished) => tested(entry, &same, &args.read),
            Ok(trainer::Outcome::Stopped) => Err(anyhow::anyhow!("stopped")),
            Err(error) => Err(error),
        };
        if let Err(stopped) = crate::stop::check() {
            say!("Stopped and saved. Give the same command again to go on.");
            return Err(stopped.into());
        }
        let result = result.map_err(|error| error.to_string());
        if let Err(why) = &result {
            tell!("{} failed: {why}", entry.name);
        }
        outcomes.push(Outcome { name: entry.name.clone(), result });
    }
    let compared = compare(outcomes, &reference)?;
    write(&compared, &args.out)?;
    print(&compared, args.format)?;
    match compared.comparison.failures.len() {
        0 => Ok(()),
        failed => anyhow::bail!("{failed} of {} methods failed; see above.", entries.len()),
    }
}

/// The methods in order, each with its folder; a config that does not parse is an error before anything is trained.
fn entries(args: &Args) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    if let Some(path) = &args.config {
        for method in &args.methods {
            // A setting of another of the compared methods is for that one alone.
            let for_this = |set: &&String| {
                let table = set.split(['.', '=']).next().unwrap_or_default().trim();
                args.methods.iter().all(|other| other == method || other.name() != table)
            };
            let settings: Vec<String> = args.set.iter().filter(for_this).cloned().collect();
            let mut config = Config::load_by(path, &settings, Some(*method))?;
            args.compute.apply(&mut config);
            let folder = args.out.join(method.name());
            entries.push(Entry { name: method.to_string(), folder, config: Some(config) });
        }
    } else if let Some(other) = args.set.iter().find(|s| !s.trim_start().starts_with("test.")) {
        anyhow::bail!(
            "--set {other}: without a config nothing is trained, only `test.` keys can be changed."
        );
    }
    for run in &args.runs {
        let (name, folder) = match run.split_once('=') {
            Some((name, folder)) => (name.to_string(), PathBuf::from(folder)),
            None => {
                let name = Path::new(run).file_name().context("--run needs the folder of a run")?;
                (name.to_string_lossy().into_owned(), PathBuf::from(run))
            }
        };
        entries.push(Entry { name, folder, config: None });
    }
    anyhow::ensure!(!entries.is_empty(), "Give --methods, or finished runs with --run.");
    for (i, entry) in entries.iter().enumerate() {
        anyhow::ensure!(
            entries[..i].iter().all(|other| other.name != entry.name),
            "{} is there twice; give a run a name of its own: --run NAME=FOLDER.",
            entry.name
        );
    }
    Ok(entries)
}

fn reference(args: &Args, entries: &[Entry]) -> anyhow::Result<String> {
    let is_there = |name: &str| entries.iter().any(|entry| entry.name == name);
    match &args.reference {
        Some(name) if is_there(name) => Ok(name.clone()),
        Some(name) => {
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            anyhow::bail!("--reference {name}: it is not one of those compared ({}).", names.join(", "))
        }
        None if is_there("cdkt") => Ok("cdkt".into()),
        None => Ok(entries[0].name.clone()),
    }
}

/// Trains what is not trained yet.
fn trained(entry: &Entry, read: &ReadArgs) -> anyhow::Result<trainer::Outcome> {
    let Some(config) = &entry.config else {
        return Ok(trainer::Outcome::Finished);
    };
    let unfinished = read.with_opener(read.on_bad(), |opener| unfinished(&entry.folder, config, opener))?;
    let Some(mut run) = unfinished else {
        tell!("{}: already trained ({}).", entry.name, entry.folder.display());
        return Ok(trainer::Outcome::Finished);
    };
    tell!("{}: training, {} of {} episodes done.", entry.name, run.trainer().episode(), run.length());
    crate::train::train(&mut run)
}

fn tested(entry: &Entry, same: &SameTest, read: &ReadArgs) -> anyhow::Result<Examined> {
    let start = Instant::now();
    let examined =
        read.with_opener(read.on_bad(), |opener| examine(&entry.name, &entry.folder, same, opener))?;
    let (episodes, seconds) = (examined.test.episodes, start.elapsed().as_secs_f64());
    tell!("{}: tested on {episodes} episodes and calibrated in {seconds:.1} s.", entry.name);
    Ok(examined)
}

fn write(compared: &Compared, out: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let comparison = &compared.comparison;
    for (name, text) in [
        ("report.html", compared.html()?),
        ("compare.md", comparison.markdown()),
        ("compare.csv", comparison.csv()),
        ("compare.txt", comparison.text()),
        ("compare.json", serde_json::to_string_pretty(comparison)?),
    ] {
        siskin_train::atomic::write(&out.join(name), text.as_bytes())?;
    }
    tell!("Written: report.html and compare.md, .csv, .txt and .json in {}.\n", out.display());
    Ok(())
}

fn print(compared: &Compared, format: Format) -> anyhow::Result<()> {
    let comparison = &compared.comparison;
    match format {
        Format::Text => say!("{}", comparison.text().trim_end()),
        Format::Markdown => say!("{}", comparison.markdown().trim_end()),
        Format::Csv => say!("{}", comparison.csv().trim_end()),
        Format::Json => say!("{}", serde_json::to_string_pretty(comparison)?),
    }
    Ok(())
}
