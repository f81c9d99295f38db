//! Runs as a job of HyperQueue, submitted by its Python package.

use super::local::RETRIES;
use super::{Args, command, write_job};
use anyhow::Context;
use siskin_data::shell::quoted;
use siskin_train::sweep::{Sweep, SweepRun};
use std::process::Command;

/// Names the Python that has the package `hyperqueue`.
const PYTHON: &str = "SISKIN_PYTHON";

/// Writes a Python program that submits the job, and runs it.
pub(super) fn submit(sweep: &Sweep, waiting: &[&SweepRun], args: &Args) -> anyhow::Result<()> {
    let path = write_job(sweep, "py", &program(sweep, waiting, args)?)?;
    let python = std::env::var(PYTHON).unwrap_or_else(|_| "python3".into());
    if args.dry_run {
        say!("Written: {}. Submit it by: {} {}", path.display(), quoted(&python), quoted(&path));
        return Ok(());
    }
    let mut submit = Command::new(&python);
    submit.arg(&path);
    if args.wait {
        submit.arg("wait");
    }
    let out =
        submit.output().with_context(|| format!("cannot start {python}; {PYTHON} names another one"))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let why = stderr.lines().last().unwrap_or_default();
    anyhow::ensure!(
        out.status.success(),
        "HyperQueue did not take the job: {why}. Its Python package must be there (pip install hyperqueue; {PYTHON} names the \
         Python that has it) and a server must run (HQ_SERVER_DIR names its folder)"
    );
    say!("HyperQueue job {}: {} runs by {}.", stdout.trim(), waiting.len(), path.display());
    if !args.wait {
        super::show::afterwards(sweep);
    }
    Ok(())
}

/// The program: one task a run. A task of a lost worker is begun again by HyperQueue; where the process was killed, by the task
/// itself.
fn program(sweep: &Sweep, waiting: &[&SweepRun], args: &Args) -> anyhow::Result<String> {
    let threads = args.cpus.unwrap_or(1);
    let words = command(sweep, threads, &args.read)?;
    let folder = std::path::absolute(&sweep.folder)?;
    let names: Vec<&str> = waiting.iter().map(|run| run.name.as_str()).collect();
    let here = std::env::current_dir().context("cannot say where we are")?;
    let text = |x: &str| serde_json::to_string(x).expect("a text");
    let list = |x: Vec<String>| x.iter().map(|x| text(x)).collect::<Vec<_>>().join(", ");
    let times = (0..=RETRIES).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    let again = format!(
        "log=$1; shift; for time in {times}; do \"$@\" >>\"$log\" 2>&1; code=$?; \
         [ $code -gt 128 ] && [ $code -ne 143 ] || break; done; exit $code"
    );
    let lines = [
        "import os".to_string(),
        "import sys".into(),
        "from hyperqueue import Client, Job".into(),
        "from hyperqueue.ffi.protocol import ResourceRequest".into(),
        "".into(),
        format!("folder = {}", text(&folder.display().to_string())),
        format!("command = [{}]", list(words)),
        format!("names = [{}]", list(names.iter().map(|name| name.to_string()).collect())),
        format!("again = {}", text(&again)),
        "client = Client(os.environ.get(\"HQ_SERVER_DIR\"))".into(),
        format!(
            "job = Job(default_workdir={}, max_fails=None, name=\"siskin-sweep\")",
            text(&here.display().to_string())
        ),
        "for name in names:".into(),
        "    task = [\"sh\", \"-c\", again, \"sh\", f\"{folder}/{name}/log.txt\", *command, name]".into(),
        format!("    cpus = ResourceRequest(cpus={threads})"),
        "    job.program(task, name=name, stdout=None, stderr=None, resources=cpus, crash_limit=5)".into(),
        "submitted = client.submit(job)".into(),
        "print(submitted.id, flush=True)".into(),
        "if \"wait\" in sys.argv[1:]:".into(),
        "    client.wait_for_jobs([submitted], raise_on_error=False)".into(),
    ];
    Ok(lines.join("\n") + "\n")
}
