//! Lists that say which class belongs to which split.
//!
//! Three forms: `splits/[<scheme>_]<part>[_classes].txt` with one class per line; `classes.tsv` with the columns `class`
//! and `split`; and a JSON file `{"train": [...], "val": [...], "test": [...]}`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::tree::Tree;
use crate::nearest::nearest;
use crate::split::{Scheme, SplitName};
use crate::{Error, Result};

/// Larger than any list of classes.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Class names of each part, each with the line it stands in.
type Named = [Vec<(usize, String)>; 3];

/// The classes that lists may name.
pub(crate) struct Known<'a> {
    dataset: &'a str,
    index: HashMap<&'a str, usize>,
}

impl<'a> Known<'a> {
    pub(crate) fn new(dataset: &'a str, classes: impl Iterator<Item = &'a str>) -> Self {
        Known { dataset, index: classes.enumerate().map(|(i, name)| (name, i)).collect() }
    }
}

/// The splits that lie beside the images of a tree: `<root>splits/*.txt`, `<root>classes.tsv`, `<root>splits.json`.
pub(super) fn read_beside(tree: &Tree, root: &str, known: &Known<'_>) -> Result<Vec<Scheme>> {
    let mut schemes = read_texts(tree, &format!("{root}splits/"), known)?;
    let table = format!("{root}classes.tsv");
    if tree.has(&table) {
        schemes.extend(parse_table(&tree.text(&table, MAX_LIST_BYTES)?, &tree.display(&table), known)?);
    }
    let json = format!("{root}splits.json");
    if tree.has(&json) {
        schemes.push(parse_json(&tree.text(&json, MAX_LIST_BYTES)?, &tree.display(&json), known)?);
    }
    Ok(schemes)
}

/// The splits at a path that a person names: a JSON file, a table, or a folder of text lists.
pub(crate) fn read_path(path: &Path, known: &Known<'_>) -> Result<Vec<Scheme>> {
    if path.is_dir() {
        let schemes = read_texts(&Tree::open(path)?, "", known)?;
        if schemes.is_empty() {
            let problem = "the folder has no list such as train.txt, val.txt, test.txt".to_owned();
            return Err(Error::List { path: path.display().to_string(), line: None, problem });
        }
        return Ok(schemes);
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::io("read", path, source))?;
    let shown = path.display().to_string();
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv")) {
        return parse_table(&text, &shown, known);
    }
    Ok(vec![parse_json(&text, &shown, known)?])
}

/// The domain of each class by the column `alphabet` (or `domain`) of `<root>classes.tsv`.
pub(super) fn domains(tree: &Tree, root: &str) -> Result<HashMap<String, String>> {
    let table = format!("{root}classes.tsv");
    if !tree.has(&table) {
        return Ok(HashMap::new());
    }
    let text = tree.text(&table, MAX_LIST_BYTES)?;
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let column = |names: &[&str]| header.iter().position(|h| names.contains(h));
    let (Some(class), Some(domain)) = (column(&["class"]), column(&["alphabet", "domain"])) else {
        return Ok(HashMap::new());
    };
    let cell = |row: &[&str], at: usize| row.get(at).map(|c| (*c).to_owned());
    Ok(lines.filter_map(|row| Some((cell(&row, class)?, cell(&row, domain)?))).collect())
}

/// `lake_background_classes.txt` is the part `train` of the scheme `lake`; `noLatin_classes.txt` the part `train` of
/// `noLatin`; `val.txt` the part `val` of `default`. Lists of files (`base_files.txt`) say the same by file; they are
/// passed over.
fn read_texts(tree: &Tree, folder: &str, known: &Known<'_>) -> Result<Vec<Scheme>> {
    let mut named: BTreeMap<String, Named> = BTreeMap::new();
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(folder).and_then(|n| n.strip_suffix(".txt")) else {
            continue;
        };
        if name.contains('/') || name.ends_with("_files") {
            continue;
        }
        let (stem, is_list) = name.strip_suffix("_classes").map_or((name, false), |stem| (stem, true));
        let (scheme, split) = match stem.rsplit_once('_') {
            Some((scheme, part)) if SplitName::parse(part).is_some() => (scheme, SplitName::parse(part)),
            _ => match SplitName::parse(stem) {
                Some(split) => ("default", Some(split)),
                None => (stem, is_list.then_some(SplitName::Train)),
            },
        };
        let Some(split) = split else { continue };
        let text = tree.text(&file.path, MAX_LIST_BYTES)?;
        let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim().to_owned()));
        let part = &mut named.entry(scheme.to_owned()).or_default()[split.index()];
        part.extend(lines.filter(|(_, line)| !line.is_empty()));
        shown.insert(scheme.to_owned(), tree.display(&file.path));
    }
    named.into_iter().map(|(scheme, parts)| resolve(&scheme, parts, &shown[&scheme], known)).collect()
}

/// `{"train": [class names], "val": [...], "test": [...]}`, with `base` and `novel` for the first and the last if liked.
pub(crate) fn parse_json(text: &str, path: &str, known: &Known<'_>) -> Result<Scheme> {
    let problem = |problem: String| Error::List { path: path.to_owned(), line: None, problem };
    let lists: BTreeMap<String, Vec<String>> = serde_json::from_str(text).map_err(|e| {
        problem(format!("{e}; expected {{\"train\": [class names], \"val\": [...], \"test\": [...]}}"))
    })?;
    let mut parts = Named::default();
    for (key, names) in lists {
        let split = SplitName::parse(&key)
            .ok_or_else(|| problem(format!("the key `{key}` is none of train, val, test")))?;
        parts[split.index()].extend(names.into_iter().enumerate().map(|(i, name)| (i + 1, name)));
    }
    resolve("default", parts, path, known)
}

/// The column `split` of a table with the column `class`; no scheme if there is no such column.
fn parse_table(text: &str, path: &str, known: &Known<'_>) -> Result<Vec<Scheme>> {
    let header: Vec<&str> = text.lines().next().unwrap_or_default().split('\t').collect();
    let column = |name: &str| header.iter().position(|h| *h == name);
    let (Some(class), Some(split)) = (column("class"), column("split")) else { return Ok(Vec::new()) };
    let mut parts = Named::default();
    for (index, line) in text.lines().enumerate().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let (Some(class), Some(part)) = (cells.get(class), cells.get(split)) else { continue };
        let split = SplitName::parse(part).ok_or_else(|| Error::List {
            path: path.to_owned(),
            line: Some(index + 1),
            problem: format!("`{part}` is none of train, val, test"),
        })?;
        parts[split.index()].push((index + 1, (*class).to_owned()));
    }
    Ok(vec![resolve("default", parts, path, known)?])
}

/// Names to indices. A class may stand in one part only; `Greek/character01/rot090` (Vinyals' lists) is the class
/// `Greek_character01`.
fn resolve(scheme: &str, named: Named, path: &str, known: &Known<'_>) -> Result<Scheme> {
    let mut part_of: HashMap<usize, usize> = HashMap::new();
    let mut parts: [Vec<_>; 3] = Default::default();
    for (part, names) in named.into_iter().enumerate() {
        for (line, name) in names {
            let wanted = match name.rsplit_once("/rot") {
                Some((character, _)) => character.replace('/', "_"),
                None => name.clone(),
            };
            let found = known
                .index
                .get(wanted.as_str())
                .or_else(|| known.index.get(wanted.replace('/', "_").as_str()));
            let fail = |problem: String| Error::List { path: path.to_owned(), line: Some(line), problem };
            let Some(&class) = found else {
                let near = nearest(&wanted, known.index.keys().copied());
                let near = near.map(|n| format!("; did you mean {n}?")).unwrap_or_default();
                return Err(fail(format!("there is no class {wanted} in {}{near}", known.dataset)));
            };
            match part_of.insert(class, part) {
                None => parts[part].push((class, None)),
                Some(before) if before == part => {}
                Some(before) => {
                    let (a, b) = (SplitName::ALL[before], SplitName::ALL[part]);
                    return Err(fail(format!("the class {wanted} is in {a} and in {b}")));
                }
            }
        }
    }
    Ok(Scheme { name: scheme.to_owned(), parts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::folder;
    use crate::source::listing::Listing;

    /// A folder of classes a to d with one file each, and further files.
    fn listing(files: &[(&str, &str)]) -> Result<Listing> {
        let dir = tempfile::tempdir().unwrap();
        let classes = ["a", "b", "c", "Greek_character01"].map(|c| (format!("images/{c}/1.png"), "x"));
        let files = files.iter().map(|(p, t)| ((*p).to_owned(), *t));
        for (path, text) in classes.into_iter().chain(files) {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder::list(Tree::open(dir.path()).unwrap())
    }

    #[test]
    fn text_lists_name_scheme_and_part() {
        let listing = listing(&[
            ("splits/base_classes.txt", "a\n\nb\n"),
            ("splits/novel_classes.txt", "c\r\n"),
            ("splits/base_files.txt", "a/1.png"),
            ("splits/vinyals_train_classes.txt", "b"),
            ("splits/vinyals_val_classes.txt", "Greek/character01/rot000\nGreek/character01/rot090\n"),
            ("splits/vinyals_test_classes.txt", "a"),
            ("splits/noA_classes.txt", "b\nc"),
        ])
        .unwrap();
        let names: Vec<_> = listing.schemes.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["vinyals", "default", "noA"], "the complete one is first");
        assert_eq!(listing.schemes[0].parts, [vec![(2, None)], vec![(0, None)], vec![(1, None)]]);
        assert_eq!(listing.schemes[1].parts, [vec![(1, None), (2, None)], vec![], vec![(3, None)]]);
        assert_eq!(listing.schemes[2].parts[0], [(2, None), (3, None)]);
    }

    #[test]
    fn json_and_table_say_the_same() {
        let json = listing(&[("splits.json", r#"{"base": ["a"], "val": ["b"], "test": ["c"]}"#)]).unwrap();
        let table =
            listing(&[("classes.tsv", "class\talphabet\tsplit\na\tA\tbase\nb\tB\tval\nc\tA\tnovel\n")]);
        let table = table.unwrap();
        assert_eq!(json.schemes, table.schemes);
        assert_eq!((table.classes[2].name.as_str(), table.classes[2].domain.as_str()), ("b", "B"));
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_line() {
        for (path, text, expected) in [
            ("splits/train.txt", "a\nbb", "line 2: there is no class bb"),
            ("splits.json", r#"{"trian": ["a"]}"#, "the key `trian` is none of train, val, test"),
            ("splits.json", r#"["a"]"#, "expected {\"train\""),
            ("splits.json", r#"{"train": ["a"], "test": ["a"]}"#, "the class a is in train and in test"),
            ("classes.tsv", "class\tsplit\na\tdev", "line 2: `dev` is none of"),
        ] {
            let error = listing(&[(path, text)]).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(path), "{error}");
        }
    }
}
