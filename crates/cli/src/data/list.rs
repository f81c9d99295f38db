//! `siskin data list`.

use serde_json::json;
use siskin_data::import::Original;

use super::source::CacheArgs;

/// Arguments of `siskin data list`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  siskin data list --json")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let cache = args.cache.open()?;
    let imported: Vec<_> =
        cache.names().into_iter().filter_map(|n| cache.named(&n).map(|s| (n, s))).collect();
    if args.json {
        let imported: Vec<_> = imported
            .iter()
            .map(|(name, source)| json!({"name": name, "path": source.path, "there": source.path.exists()}))
            .collect();
        let originals: Vec<_> = Original::ALL
            .iter()
            .map(|o| o.about())
            .map(
                |a| json!({"name": a.name, "what": a.what, "get": a.get, "give": a.give, "splits": a.splits}),
            )
            .collect();
        let all = json!({
            "cache": cache.folder(), "built_in": ["glyphs"], "imported": imported, "importable": originals,
        });
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    say!("Built in:\n  glyphs  handwriting-like characters, drawn on the spot; needs no file\n");
    say!("Imported (cache: {}):", cache.folder().display());
    if imported.is_empty() {
        say!("  none yet; see `siskin data import --help`");
    }
    for (name, source) in imported {
        let gone = if source.path.exists() { "" } else { "  (the files are gone)" };
        say!("  {name}  {}{gone}", source.path.display());
    }
    say!("\nOriginal downloads that can be imported (nothing is downloaded for you):");
    for about in Original::ALL.map(Original::about) {
        say!(
            "  {}  {}\n    {}\n    Give: {}\n    Splits: {}",
            about.name,
            about.what,
            about.get,
            about.give,
            about.splits
        );
    }
    say!("\nAny folder with one folder of images per class works as it is: --data PATH.");
    Ok(())
}
