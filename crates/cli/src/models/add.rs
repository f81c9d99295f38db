//! `siskin model add`: the file is read and tried in a process of its own, with bounds on memory and time, before it is kept.

use super::{describe, probe, registry};
use anyhow::Context;
use siskin_adapt::foreign::{ClassScores, Inspected, MOST_BYTES, hash_of};
use siskin_data::files;
use siskin_data::shell::quoted;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the process that tries the file, which may compute for [`probe::SECONDS`]: on a busy machine that takes longer.
const PATIENCE: Duration = Duration::from_secs(5 * probe::SECONDS);
/// Bytes of its report at most.
const MOST_OUTPUT: u64 = 1 << 20;

/// Arguments of `siskin model add`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin model add efficientnet-lite0.onnx --name lite0 --preset efficientnet-lite
  siskin model add dinov2-small.onnx --name dino --preset dinov2
  siskin model add mine.onnx --name mine --size 160 --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25 --resize squash

Then: siskin adapt PHOTOS --model lite0. Where to get networks, and their presets: docs/photos.md.")]
pub(super) struct Args {
    /// The ONNX file, weights inside
    file: PathBuf,
    /// What to call it
    #[arg(long)]
    name: String,
    #[command(flatten)]
    wishes: probe::WishArgs,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let registry = registry()?;
    registry.check_free(&args.name)?;
    let found = inspected(&args)?;
    let bytes = files::read(&args.file, MOST_BYTES)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    // Between the two readings the file may have been changed; what was tried is what is kept.
    anyhow::ensure!(
        hash_of(&bytes) == found.spec.file,
        "{} was changed while it was read. Try again.",
        args.file.display()
    );
    registry.add(&args.name, &found.spec, &bytes)?;
    say!("Added: {}", args.name);
    describe(&found.spec);
    say!("  inputs    {}", found.inputs.join(", "));
    say!("  outputs   {}", found.outputs.join(", "));
    if let Some(scores) = &found.scores {
        say!("{}", better_output(&args, &found.spec.output, scores));
    }
    say!("Next: siskin model try {0} PHOTOS, then siskin adapt PHOTOS --model {0}", quoted(&args.name));
    Ok(())
}

/// That the output looks like scores of classes, and what to ask for.
fn better_output(args: &Args, output: &str, of: &ClassScores) -> String {
    let why = format!(
        "`{output}` looks like scores of the {} classes that the network was trained on; what they are computed from is mostly better.",
        of.classes
    );
    match &of.features {
        Some(features) => {
            let (name, features) = (quoted(&args.name), quoted(features));
            format!(
                "{why} To take it: siskin model remove {name}, then add it again with --output {features}"
            )
        }
        None => format!("{why} Export the network without its last layer."),
    }
}

/// What a process of its own found in the file.
fn inspected(args: &Args) -> anyhow::Result<Inspected> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut command = Command::new(program);
    command.args(["model", "probe"]).arg(&args.file).arg(serde_json::to_string(&args.wishes.wishes()?)?);
    let (status, output) = watched(&mut command).context("cannot start this program again")?;
    match (status.success(), serde_json::from_slice::<probe::Report>(&output)) {
        (true, Ok(probe::Report::Found(found))) => Ok(*found),
        (true, Ok(probe::Report::Refused(why))) => anyhow::bail!("{why}"),
        _ => anyhow::bail!(
            "{} cannot be used: to read and to try it takes more than {} GB of memory or {} s, or it made the program that tried \
             it fail ({status})",
            args.file.display(),
            probe::MEMORY >> 30,
            probe::SECONDS,
        ),
    }
}

/// Runs a process to its end, or ends it: the system bounds what it computes, this bounds how long it waits. Gives what it wrote.
fn watched(command: &mut Command) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let out = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        // What cannot be read is no report.
        let _ = out.map(|out| out.take(MOST_OUTPUT).read_to_end(&mut output));
        output
    });
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Ok((status, reader.join().unwrap_or_default()))
}
