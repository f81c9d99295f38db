//! `siskin man`: the manual pages, made from the same words as --help.

use anyhow::Context;
use clap::CommandFactory;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `siskin man`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin man | man -l -                               read the page of the whole command
  siskin man --out ~/.local/share/man/man1            a page for every subcommand too: man siskin-train")]
pub(crate) struct Args {
    /// The folder to write a page of every subcommand to [default: print the page of the whole command]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<()> {
    let command = C::command().name("siskin");
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return match std::io::stdout().write_all(&page) {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
            _ => Ok(()),
        };
    };
    let wrote = || -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(command, folder)
    };
    wrote().with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
    say!("Written: siskin.1 and a page for every subcommand in {}.", folder.display());
    Ok(())
}
