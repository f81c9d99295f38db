//! `siskin explain`: what a word means, from the glossary.

use anyhow::bail;
use siskin_data::nearest::nearest;

/// The glossary, as it stands in the documents.
const GLOSSARY: &str = include_str!("../../../docs/glossary.md");

/// Arguments of `siskin explain`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin explain ECE
  siskin explain conformal set
  siskin explain                list all words")]
pub(crate) struct Args {
    /// The word, or several that belong together [default: list all]
    term: Vec<String>,
}

/// A row of the glossary.
struct Entry<'a> {
    section: &'a str,
    names: Vec<&'a str>,
    meaning: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let entries = entries(GLOSSARY);
    let wanted = args.term.join(" ");
    if wanted.is_empty() {
        list(&entries);
        return Ok(());
    }
    let found: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.is(&wanted)).collect();
    if found.is_empty() {
        let near = near(&wanted, &entries).map_or(String::new(), |n| format!(" Did you mean: {n}?"));
        bail!("{wanted} is not in the glossary.{near} `siskin explain` lists all words.");
    }
    for entry in &found {
        say!("{}: {}", entry.names.join(", "), entry.meaning);
        if found.len() > 1 {
            say!("    ({})", entry.section);
        }
    }
    Ok(())
}

/// Words that hold what is wanted, the shortest first; else the one that is spelled most alike.
fn near(wanted: &str, entries: &[Entry<'_>]) -> Option<String> {
    /// Words named at most.
    const NAMED: usize = 3;
    let wanted = wanted.to_lowercase();
    let names = || entries.iter().flat_map(|entry| entry.names.iter().copied());
    let mut holding: Vec<&str> = names().filter(|name| name.to_lowercase().contains(&wanted)).collect();
    holding.sort_by_key(|name| (name.len(), *name));
    holding.dedup();
    holding.truncate(NAMED);
    match holding.is_empty() {
        true => nearest(&wanted, names()),
        false => Some(holding.join(", ")),
    }
}

fn list(entries: &[Entry<'_>]) {
    let mut section = "";
    for entry in entries {
        if entry.section != section {
            section = entry.section;
            say!("\n{section}");
        }
        say!("  {}", entry.names.join(", "));
    }
}

impl Entry<'_> {
    /// Whether this word is meant, in small or capital letters, as one or as many.
    fn is(&self, wanted: &str) -> bool {
        let plain = |word: &str| {
            let word = word.to_lowercase().replace(['-', '"'], " ");
            let word = word.trim().strip_prefix("to ").map_or(word.trim().to_string(), str::to_string);
            word.strip_suffix('s').filter(|one| !one.ends_with('s')).map_or(word.clone(), str::to_string)
        };
        self.names.iter().any(|name| plain(name) == plain(wanted))
    }
}

/// The rows of all tables: `| word, other word | meaning | code |`.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut entries = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if !line.starts_with("| ") || cells.len() < 2 || ["word", "---"].contains(&cells[0]) {
            continue;
        }
        let names = cells[0].split(", ").collect();
        entries.push(Entry { section, names, meaning: cells[1].replace('`', "") });
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_people_meet_first_are_explained() {
        let all = entries(GLOSSARY);
        for word in [
            "ECE",
            "shot",
            "conformal set",
            "shots",
            "NLL",
            "episodes",
            "\"none of these\"",
            "Brier score",
            "Brier",
            "conformal",
            "variance",
            "backbone",
            "lengthscale",
            "sure",
            "possible",
            "calibration error",
            "calibration",
            "posterior",
            "prior",
            "kernel",
        ] {
            let found = all.iter().filter(|entry| entry.is(word)).count();
            assert!(found > 0, "{word}");
        }
        assert!(all.iter().all(|entry| !entry.section.is_empty() && !entry.meaning.is_empty()));
        assert!(all.iter().filter(|entry| entry.is("task")).count() > 0);
        assert!(!all.iter().any(|entry| entry.is("word")));
        let meant = |word: &str| near(word, &all).unwrap();
        assert!(meant("foreign").contains("foreign network"), "{}", meant("foreign"));
        assert_eq!(meant("epsiode"), "episode");
    }
}
