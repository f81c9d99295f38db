//! `siskin model list`.

use super::registry;
use serde_json::json;
use siskin_adapt::{EMBEDDED, Model};

/// Arguments of `siskin model list`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  siskin model list --json")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let registry = registry()?;
    let names = registry.names();
    if args.json {
        let added = names.iter().map(|name| match registry.spec(name) {
            Ok(spec) => json!({"name": name, "hash": spec.hash(), "spec": spec}),
            Err(why) => json!({"name": name, "error": why.to_string()}),
        });
        let all = json!({
            "folder": registry.folder(), "embedded": EMBEDDED.map(|(name, _)| name), "added": added.collect::<Vec<_>>(),
        });
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    say!("Embedded:");
    for (name, _) in EMBEDDED {
        let model = Model::open(name)?;
        let data = model.card()?.data.split(':').next().unwrap_or_default().to_owned();
        say!("  {name}  trained on {data}, images of {} pixels", model.input().0);
    }
    say!("\nAdded (in {}):", registry.folder().display());
    if names.is_empty() {
        say!("  none yet; see `siskin model add --help`");
    }
    for name in names {
        match registry.spec(&name) {
            Ok(spec) => say!(
                "  {name}  {:.1} MB, images of {} pixels, {} features of `{}`",
                spec.bytes as f64 / 1e6,
                spec.preprocessing.size,
                spec.dim,
                spec.output
            ),
            Err(why) => say!("  {name}  {why}"),
        }
    }
    Ok(())
}
