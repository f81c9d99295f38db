//! `siskin completions`: words that the shell completes.

use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `siskin completions`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin completions bash > ~/.local/share/bash-completion/completions/siskin
  siskin completions zsh > \"${fpath[1]}/_siskin\"
  siskin completions fish > ~/.config/fish/completions/siskin.fish")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<()> {
    // Made whole first: a pipe that closes early must not end in a panic.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "siskin", &mut text);
    match std::io::stdout().write_all(&text) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}
