//! `siskin methods`: what can be trained.

use siskin_methods::MethodName;

/// Runs the command.
pub(crate) fn run() -> anyhow::Result<()> {
    let width = MethodName::all().map(|m| m.name().len()).max().unwrap_or(0);
    for method in MethodName::all() {
        say!("{:width$}  {}  [paper: {}]", method.name(), method.about(), method.paper());
    }
    say!("\nTrain one with: siskin train CONFIG --method NAME");
    Ok(())
}
