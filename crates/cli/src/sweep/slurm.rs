//! Runs as an array job of Slurm.

use super::local::RETRIES;
use super::{Args, command, shell_line, write_job};
use anyhow::Context;
use siskin_data::shell::quoted;
use siskin_train::reproduce::shell_word;
use siskin_train::sweep::{Sweep, SweepRun};
use std::process::Command;

/// Writes the job script and gives it to sbatch.
pub(super) fn submit(sweep: &Sweep, waiting: &[&SweepRun], args: &Args) -> anyhow::Result<()> {
    let script = script(sweep, waiting, args)?;
    let path = write_job(sweep, "sbatch", &script)?;
    if args.dry_run {
        say!("Written: {}. Submit it by: sbatch {}", path.display(), quoted(&path));
        return Ok(());
    }
    let mut sbatch = Command::new("sbatch");
    sbatch.arg("--parsable");
    if args.wait {
        sbatch.arg("--wait");
    }
    let out = sbatch.arg(&path).output().context(
        "cannot start sbatch. Is this a machine of a Slurm cluster? --dry-run writes the job without submitting it",
    )?;
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let job = stdout.trim().split(';').next().unwrap_or_default();
    // With --wait its exit code is that of the worst run: `siskin sweep status` tells of those.
    anyhow::ensure!(!job.is_empty(), "sbatch refused the job: {}", stderr.trim());
    say!("Slurm job {job}: {} runs by {}.", waiting.len(), path.display());
    if !args.wait {
        super::show::afterwards(sweep);
    }
    Ok(())
}

/// The job: each task of the array takes one run. Before the time limit it saves and is queued again; where its process was
/// killed, or its node failed, too.
fn script(sweep: &Sweep, waiting: &[&SweepRun], args: &Args) -> anyhow::Result<String> {
    let threads = args.cpus.unwrap_or(1);
    let words = command(sweep, threads, &args.read)?;
    let folder = std::path::absolute(&sweep.folder)?;
    let names: Vec<&str> = waiting.iter().map(|run| run.name.as_str()).collect();
    let cap = args.parallel.map_or(String::new(), |most| format!("%{most}"));
    let passed: String = args.pass.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    let lines = [
        "#!/bin/sh".to_string(),
        "#SBATCH --job-name=siskin-sweep".into(),
        format!("#SBATCH --array=0-{}{cap}", names.len() - 1),
        format!("#SBATCH --cpus-per-task={threads}"),
        "#SBATCH --requeue".into(),
        "#SBATCH --open-mode=append".into(),
        "#SBATCH --output=/dev/null".into(),
        format!("#SBATCH --signal=B:USR1@{}", args.warning),
        format!("{passed}set -- {}", names.join(" ")),
        "shift \"$SLURM_ARRAY_TASK_ID\"".into(),
        format!("exec >>{}/\"$1\"/log.txt 2>&1", shell_word(&folder.display().to_string())),
        format!("{} \"$1\" &", shell_line(&words)),
        "run=$!".into(),
        "again=no".into(),
        "trap 'again=yes; kill -TERM $run' USR1      # the time limit is near".into(),
        "trap 'kill -TERM $run' TERM INT             # somebody cancels the job".into(),
        "cancelled() { [ \"$again\" = no ] && [ \"$code\" = 143 ]; }".into(),
        "wait $run; code=$?".into(),
        "while kill -0 $run 2>/dev/null; do wait $run; code=$?; done".into(),
        "echo \"$1: exit code $code\"".into(),
        format!(
            "if [ $code -gt 128 ] && ! cancelled && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {RETRIES} ]; then again=yes; fi"
        ),
        "if [ \"$again\" = yes ] && [ $code -ne 0 ]; then scontrol requeue \"$SLURM_JOB_ID\"; sleep 60; fi"
            .into(),
        "exit $code".into(),
    ];
    Ok(lines.join("\n") + "\n")
}
