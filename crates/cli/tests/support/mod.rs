//! Runs the command in a folder of its own, for all tests beside this folder.

#![allow(dead_code)] // Every test file uses a part of it.

use std::path::Path;
use std::process::{Command, Output};

/// The command with these arguments in a folder, with its cache there, as a person would start it.
pub(crate) fn siskin(args: &[&str], folder: &Path) -> Command {
    in_folder(Command::new(env!("CARGO_BIN_EXE_siskin")), args, folder)
}

/// The command with at most so many megabytes of memory (address space).
#[cfg(unix)]
pub(crate) fn bounded(megabytes: u32, args: &[&str], folder: &Path) -> Command {
    after(&format!("ulimit -v {}", megabytes * 1024), args, folder)
}

/// The command in the place of a shell that first did this.
#[cfg(unix)]
pub(crate) fn after(script: &str, args: &[&str], folder: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_siskin")]);
    in_folder(shell, args, folder)
}

fn in_folder(mut command: Command, args: &[&str], folder: &Path) -> Command {
    command.args(args).current_dir(folder).env("SISKIN_CACHE", folder.join("cache"));
    // Cargo sets the latter for the tests, as for `cargo run`.
    command.env_remove("SISKIN_TOKEN").env_remove("CARGO_PKG_NAME").env_remove("CARGO_MANIFEST_DIR");
    command
}

/// What the command prints and how it ends.
pub(crate) fn run(args: &[&str], folder: &Path) -> Output {
    siskin(args, folder).output().unwrap()
}

/// Standard output of a command that must succeed.
pub(crate) fn ok(args: &[&str], folder: &Path) -> String {
    let output = run(args, folder);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{args:?}: {stdout}{stderr}");
    stdout
}

/// Bytes that a command printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
