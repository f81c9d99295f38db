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

/// A line of a walk: `9. methods: `gp/cdkt/mod.rs`, `Cdkt::new`: what it does (and what is no hop of its own)`.
struct Hop {
    number: usize,
    /// The crate, by its folder.
    name: String,
    about: String,
}

fn hop(line: &str) -> Option<Hop> {
    let (number, rest) = line.split_once(". ")?;
    let (name, about) = rest.split_once(": ")?;
    let number = number.parse().ok()?;
    root().join("crates").join(name).is_dir().then(|| Hop { number, name: name.into(), about: about.into() })
}

/// The walks: their lines, and what follows them.
fn walks() -> Vec<(Vec<Hop>, String)> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let walks = text.split("### Walk ").skip(1).map(|walk| walk.split("\n#").next().unwrap_or_default());
    let parts = walks.map(|walk| {
        let hops: Vec<Hop> = walk.lines().filter_map(hop).collect();
        let after: Vec<&str> =
            walk.lines().skip_while(|line| hop(line).is_none()).filter(|line| hop(line).is_none()).collect();
        (hops, after.join(" "))
    });
    parts.collect()
}

/// The text without what stands in parentheses.
fn outside_parentheses(text: &str) -> String {
    let mut depth = 0;
    text.chars()
        .filter(|&c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0 && c != ')'
        })
        .collect()
}

/// The file is in the crate, and the functions are in the file.
#[test]
fn the_walks_name_what_is_there() {
    let (mut steps, mut fail) = (0, Vec::new());
    for Hop { number, name, about } in walks().into_iter().flat_map(|(hops, _)| hops) {
        steps += 1;
        let Some(file) = quoted(&about).find(|code| code.ends_with(".rs")) else {
            fail.push(format!("step {number} of {name} names no file"));
            continue;
        };
        let path = root().join("crates").join(&name).join("src").join(file);
        if !path.is_file() {
            fail.push(format!("step {number}: there is no {}", path.display()));
            continue;
        }
        let text = read(&path);
        for wanted in quoted(&about).filter(|code| is_name(code) && !code.ends_with(".rs")).map(last_name) {
            if !text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == wanted) {
                fail.push(format!("step {number}: {wanted} is not in {file}"));
            }
        }
    }
    assert!(fail.is_empty(), "{}", fail.join("\n"));
    assert!(steps > 40, "only {steps} steps were found");
}

/// One line is one hop, and the sentence below a walk counts them, the calls into other crates and the changes of crate.
#[test]
fn the_walks_are_as_long_as_they_say() {
    let walks = walks();
    assert_eq!(walks.len(), 2);
    for (hops, after) in walks {
        for (place, Hop { number, about, .. }) in hops.iter().enumerate() {
            assert_eq!(place + 1, *number, "{about}");
            let outside = outside_parentheses(about);
            let (files, names): (Vec<&str>, Vec<&str>) =
                quoted(&outside).partition(|code| code.ends_with(".rs"));
            assert_eq!((files.len(), names.len()), (1, 1), "a hop is one function in one file: {about}");
            assert!(root().join("crates").join(&hops[place].name).is_dir());
        }
        let changes: Vec<[&str; 2]> = hops
            .windows(2)
            .map(|pair| [pair[0].name.as_str(), pair[1].name.as_str()])
            .filter(|[from, to]| from != to)
            .collect();
        let list = after.split_once('(').and_then(|(_, rest)| rest.split_once(')')).expect(&after).0;
        let calls: Vec<(&str, &str)> =
            list.split(", ").map(|call| call.split_once(" to ").expect(call)).collect();
        let counted = format!("{} hops, {} crossings (", hops.len(), calls.len());
        assert!(after.contains(&counted), "{counted}...: {after}");
        let changed = format!("From line to line the crate changes {} times.", changes.len());
        assert!(after.contains(&changed), "{changed} {after}");
        // In the order of the lines; from a crate where the walk has been.
        let mut entered = changes.iter().map(|[_, to]| *to);
        for (from, to) in calls {
            assert!(entered.any(|crate_| crate_ == to), "no line goes from {from} to {to}");
            assert!(hops.iter().any(|hop| hop.name == from), "{from} is not on the walk");
        }
    }
}

/// The arrows of the picture: what a crate uses, beside what follows from other arrows.
#[test]
fn the_picture_shows_what_the_crates_use() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let picture =
        text.split("```mermaid").nth(1).and_then(|rest| rest.split("```").next()).expect("a picture");
    let bare = |name: &str| name.split('[').next().unwrap_or_default().trim().to_owned();
    let mut arrows: HashMap<String, Vec<String>> = HashMap::new();
    for (from, to) in picture.lines().filter_map(|line| line.split_once("-->")) {
        for from in outside_brackets(from).split('&').map(bare) {
            arrows.entry(from).or_default().extend(outside_brackets(to).split('&').map(bare));
        }
    }
    let mut reached: HashMap<&str, HashSet<&str>> = HashMap::new();
    for from in arrows.keys() {
        let (mut open, seen) = (vec![from.as_str()], reached.entry(from).or_default());
        while let Some(next) = open.pop() {
            let further = arrows.get(next).into_iter().flatten().map(String::as_str);
            open.extend(further.filter(|to| seen.insert(to)));
        }
    }
    let mut crates = 0;
    for package in packages().into_iter().filter(|package| package.name != "siskin-fuzz") {
        let name = if package.name == "siskin" { "cli" } else { package.name.trim_start_matches("siskin-") };
        let uses: HashSet<&str> =
            package.uses.iter().filter_map(|dependency| dependency.strip_prefix("siskin-")).collect();
        let nothing = HashSet::new();
        let shown = reached.get(name).unwrap_or(&nothing);
        assert!(uses.is_subset(shown), "{name} uses {uses:?}; the picture shows {shown:?}");
        for to in arrows.get(name).into_iter().flatten() {
            assert!(
                uses.contains(to.as_str()),
                "the picture has an arrow from {name} to {to}, which it does not use"
            );
        }
        crates += 1;
    }
    assert!(crates > 12, "only {crates} crates were found");
}

/// The text without what stands in square brackets.
fn outside_brackets(text: &str) -> String {
    let mut depth = 0;
    text.chars()
        .filter(|&c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0 && c != ']'
        })
        .collect()
}

/// A package of the workspace and what its `Cargo.toml` asks for.
struct Package {
    name: String,
    /// Of the library or program.
    uses: Vec<String>,
    /// The others: of tests, benchmarks, examples and while building.
    beside: Vec<String>,
}

fn packages() -> Vec<Package> {
    let folders = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.chain(["python", "fuzz"].map(|name| root().join(name)));
    folders.map(|folder| package(&read(&folder.join("Cargo.toml")))).collect()
}

fn package(text: &str) -> Package {
    let (mut table, mut package) =
        ("", Package { name: String::new(), uses: Vec::new(), beside: Vec::new() });
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix('[') {
            table = name.trim_end_matches(']');
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let key = key.trim().split('.').next().unwrap_or_default().to_owned();
        match table {
            "package" if key == "name" => package.name = value.trim().trim_matches('"').into(),
            _ if table.ends_with("dev-dependencies") || table.ends_with("build-dependencies") => {
                package.beside.push(key);
            }
            _ if table.ends_with("dependencies") => package.uses.push(key),
            _ => {}
        }
    }
    package
}

/// Each dependency from outside is named in its crate's section of docs/dependencies.md, and no section names one that its crate does
/// not have.
#[test]
fn every_dependency_is_explained_where_it_is_used() {
    let text = read(&root().join("docs/dependencies.md"));
    let sections: HashMap<&str, &str> = text
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .map(|(title, body)| (title.split(' ').next().unwrap_or(title), body))
        .collect();
    let shared = read(&root().join("Cargo.toml"));
    let shared = package(&shared).uses;
    let (mut fail, mut found) = (Vec::new(), 0);
    for Package { name, uses, beside } in packages() {
        let Some(section) = sections.get(name.as_str()) else {
            fail.push(format!("{name} has no section"));
            continue;
        };
        let own: HashSet<&String> = uses.iter().chain(&beside).collect();
        let named: HashSet<&str> = quoted(section).collect();
        for dependency in own.iter().filter(|dependency| !dependency.starts_with("siskin-")) {
            found += 1;
            if !named.contains(dependency.as_str()) {
                fail.push(format!("{name}: `{dependency}` is not explained"));
            }
        }
        let stale = shared.iter().filter(|other| named.contains(other.as_str()) && !own.contains(other));
        fail.extend(stale.map(|other| format!("{name}: `{other}` is explained, but not used")));
    }
    assert!(fail.is_empty(), "{}", fail.join("\n"));
    assert!(found > 100, "only {found} dependencies were found");
}

/// Types of one name in several crates, where the glossary lists the name, and why that is no second meaning.
const ONE_NAME_IN_TWO_CRATES: [(&str, &str); 1] =
    [("Block", "siskin-cpu's is a block of a network's layers: the mathematics of siskin-gp never meets it")];

/// A type that the glossary lists has its name for itself.
#[test]
fn a_type_of_the_glossary_is_public_in_one_crate() {
    let glossary = read(&root().join("docs/glossary.md"));
    let listed: HashSet<&str> = glossary
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.trim_matches('|').split(" | ").last())
        .flat_map(quoted)
        .filter(|code| is_name(code))
        .flat_map(|code| code.split("::"))
        .filter(|name| name.starts_with(char::is_uppercase))
        .collect();
    assert!(listed.len() > 50, "only {} types were found", listed.len());
    let mut homes: HashMap<String, HashSet<String>> = HashMap::new();
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in crates.chain([root().join("python")]) {
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for line in files.iter().map(|file| read(file)).collect::<String>().lines() {
            let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
            let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
            let Some(rest) = kinds.iter().find_map(|kind| rest.strip_prefix(kind)) else { continue };
            let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            if listed.contains(name) {
                let home = folder.file_name().unwrap().to_string_lossy().into_owned();
                homes.entry(name.into()).or_default().insert(home);
            }
        }
    }
    let twice: HashSet<&str> =
        homes.iter().filter(|(_, homes)| homes.len() > 1).map(|(name, _)| name.as_str()).collect();
    let allowed: HashSet<&str> = ONE_NAME_IN_TWO_CRATES.iter().map(|(name, _)| *name).collect();
    assert_eq!(twice, allowed, "{homes:?}");
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
