//! The documents for developers are true: the walks of ARCHITECTURE.md, the rooms of CONTRIBUTING.md and the words of docs/glossary.md
//! name files and functions that are there.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The last part of a path of code: `Kernel::raw_scale` is `raw_scale`.
fn last_name(code: &str) -> &str {
    code.rsplit("::").next().unwrap_or(code)
}

fn is_name(code: &str) -> bool {
    !code.is_empty() && code.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
}

/// The Rust files of a folder.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            sources(&entry, into);
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            into.push(entry);
        }
    }
}

/// `9. methods: `gp/cdkt/mod.rs`, `Cdkt::new`: ...`: the files are in the crate, and the functions in one of the files.
#[test]
fn the_walks_name_what_is_there() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let mut steps = 0;
    let mut fail = Vec::new();
    for line in text.lines() {
        let Some((number, rest)) = line.split_once(". ") else { continue };
        let Some((name, about)) = rest.split_once(": ") else { continue };
        if number.parse::<usize>().is_err() || !root().join("crates").join(name).is_dir() {
            continue;
        }
        steps += 1;
        let (mut text, mut wanted) = (String::new(), Vec::new());
        for code in quoted(about) {
            if code.ends_with(".rs") {
                let path = root().join("crates").join(name).join("src").join(code);
                if !path.is_file() {
                    fail.push(format!("step {number}: there is no {}", path.display()));
                    continue;
                }
                text += &read(&path);
            } else if is_name(code) {
                wanted.push(last_name(code));
            }
        }
        // A name without a file on its line, such as a trait's, is in the crate's files or in those of the crate that is called.
        for name in wanted.into_iter().filter(|name| !name.is_empty()) {
            let defined = ["fn ", "struct ", "enum ", "trait "].iter().any(|kind| {
                text.match_indices(&format!("{kind}{name}")).any(|(at, found)| {
                    !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            });
            if !text.is_empty() && !defined && !text.contains(name) {
                fail.push(format!("step {number}: {name} is in none of the files of its step"));
            }
        }
    }
    assert!(fail.is_empty(), "{}", fail.join("\n"));
    assert!(steps > 40, "only {steps} steps were found");
}

/// Folders and files that the tables of both documents name.
#[test]
fn the_rooms_are_there() {
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = read(&root().join(document));
        let rooms: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .flat_map(quoted)
            .filter(|code| code.starts_with("crates/"))
            .flat_map(alternatives)
            .collect();
        assert!(rooms.len() > 8, "{document}: {rooms:?}");
        for room in rooms {
            assert!(root().join(&room).exists(), "{document} names {room}, which is not there");
        }
    }
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, (list, after))) =
        path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![path.to_owned()];
    };
    list.split(',').map(|part| format!("{before}{}{after}", part.trim())).collect()
}

/// Every word has one row, or says of what it is the word; every code name of the last column is in the sources.
#[test]
fn the_glossary_has_one_meaning_for_a_word_and_names_what_is_there() {
    let text = read(&root().join("docs/glossary.md"));
    let mut files = Vec::new();
    ["crates", "python/src"].iter().for_each(|folder| sources(&root().join(folder), &mut files));
    let names: HashSet<String> = files
        .iter()
        .filter(|file| !file.ends_with("documents.rs"))
        .flat_map(|file| {
            let text = read(file);
            let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            words.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let mut rows: HashMap<String, &str> = HashMap::new();
    let mut fail = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        if cells[0] == "word" {
            continue;
        }
        for word in cells[0].split(", ") {
            // "(of a kernel) ..." at the beginning of the meaning keeps two uses apart.
            let of =
                cells[1].strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or("", |(of, _)| of);
            if let Some(other) = rows.insert(format!("{word} ({of})"), line) {
                fail.push(format!("two rows for one word:\n  {other}\n  {line}"));
            }
        }
        for code in quoted(cells[2]) {
            let file =
                code.ends_with(".rs") || code.ends_with('/') || code.contains('/') || code.ends_with(".md");
            if file {
                let there =
                    files.iter().any(|path| path.to_string_lossy().contains(code.trim_end_matches('/')))
                        || root().join(code).exists();
                if !there {
                    fail.push(format!("{}: there is no {code}", cells[0]));
                }
            } else if is_name(code) && !names.contains(last_name(code)) {
                fail.push(format!("{}: no source has {code}", cells[0]));
            }
        }
    }
    assert!(fail.is_empty(), "{}", fail.join("\n"));
    assert!(rows.len() > 80, "only {} words were found", rows.len());
}
