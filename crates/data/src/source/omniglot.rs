//! Omniglot as its author gives it: `images_background/<alphabet>/<character>/<drawing>.png`, and likewise
//! `images_evaluation`. A class is a character, its domain the alphabet; Lake's split follows from the two folders.

use super::listing::{Listing, Row, is_image, need_images};
use super::name_of;
use super::tree::Tree;
use crate::Result;
use crate::split::SplitName;

/// Whether the images of a tree lie in folders of alphabets and characters.
pub(crate) fn found_in(tree: &Tree) -> bool {
    let mut images = tree.files.iter().filter(|f| is_image(&f.path)).peekable();
    images.peek().is_some() && images.all(|f| parse(&f.path).is_some())
}

/// Lists one tree that holds both parts or one.
pub fn list(tree: Tree) -> Result<Listing> {
    list_trees(vec![tree])
}

/// Lists several trees, such as the two archives.
pub(crate) fn list_trees(trees: Vec<Tree>) -> Result<Listing> {
    let mut rows = Vec::new();
    for (index, tree) in trees.iter().enumerate() {
        for file in tree.files.iter().filter(|f| is_image(&f.path)) {
            let Some(drawing) = parse(&file.path) else { continue };
            rows.push(Row {
                class: format!("{}_{}", drawing.alphabet, drawing.character),
                domain: Some(drawing.alphabet.to_owned()),
                tree: index,
                path: file.path.clone(),
                name: format!("{}_{}/{}", drawing.alphabet, drawing.character, drawing.file),
                split: drawing.split,
            });
        }
    }
    let name = trees.first().map(|t| name_of(&t.root)).unwrap_or_default();
    let mut listing = need_images(Listing::assemble(name, "Omniglot: alphabet/character", trees, rows))?;
    for scheme in &mut listing.schemes {
        scheme.name = "lake".into();
    }
    Ok(listing)
}

struct Drawing<'a> {
    alphabet: &'a str,
    character: &'a str,
    file: &'a str,
    split: Option<SplitName>,
}

fn parse(path: &str) -> Option<Drawing<'_>> {
    let mut parts = path.rsplit('/');
    let (file, character, alphabet) = (parts.next()?, parts.next()?, parts.next()?);
    if !character.starts_with("character") {
        return None;
    }
    let split = match parts.next() {
        Some("images_background") => Some(SplitName::Train),
        Some("images_evaluation") => Some(SplitName::Test),
        _ => None,
    };
    Some(Drawing { alphabet, character, file, split })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_classes_and_the_two_parts_are_lakes_split() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "images_background/Greek/character01/0394_01.png",
            "images_background/Greek/character02/0395_01.png",
            "images_evaluation/Angelic/character01/0965_01.png",
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        }
        let tree = Tree::open(dir.path()).unwrap();
        assert!(found_in(&tree));
        let listing = list(tree).unwrap();
        let classes: Vec<_> = listing.classes.iter().map(|c| (c.name.as_str(), c.domain.as_str())).collect();
        assert_eq!(
            classes,
            [
                ("Angelic_character01", "Angelic"),
                ("Greek_character01", "Greek"),
                ("Greek_character02", "Greek")
            ]
        );
        let lake = &listing.schemes[0];
        assert_eq!(lake.name, "lake");
        assert_eq!(lake.parts[0], [(1, None), (2, None)]);
        assert_eq!(lake.parts[2], [(0, None)]);
    }
}
