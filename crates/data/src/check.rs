//! Is a data set sound: counts, files left out, duplicates, classes that are too small or look alike.

use std::collections::{BTreeMap, HashMap};

use crate::fault::BadFile;
use crate::open::Opened;
use crate::split::{Items, SplitName};

/// What a check found.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// Name of the data set.
    pub name: String,
    /// The layout it was found in.
    pub layout: String,
    /// Hash of its content, hexadecimal.
    pub content_hash: String,
    /// Number of classes.
    pub classes: usize,
    /// Number of images (or vectors) that can be used.
    pub images: usize,
    /// The smallest and the largest class: name and number of images.
    pub smallest: Option<(String, usize)>,
    /// See `smallest`.
    pub largest: Option<(String, usize)>,
    /// Grey and colour images.
    pub grey: usize,
    /// See `grey`.
    pub colour: usize,
    /// The smallest width and height, and the largest, in the cache.
    pub sizes: Option<[(u32, u32); 2]>,
    /// Each split with the classes and images of its parts.
    pub splits: Vec<SplitCount>,
    /// What is wrong, in the order to be fixed.
    pub problems: Vec<Problem>,
    /// Files that are not taken for images.
    pub ignored: Vec<String>,
}

/// Classes and images of a split, part by part.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SplitCount {
    /// Its name.
    pub name: String,
    /// Training, validation, test: classes and images.
    pub parts: [(usize, usize); 3],
}

/// Something that is wrong with a data set.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// A file that cannot be used.
    BadFile(BadFile),
    /// The same file in different classes.
    Duplicate {
        /// The images, each with its class.
        images: Vec<(String, String)>,
    },
    /// A file more than once in a class.
    Repeated {
        /// The class.
        class: String,
        /// The images.
        images: Vec<String>,
    },
    /// Classes whose names differ only in upper and lower case.
    SameButForCase {
        /// Their names.
        classes: Vec<String>,
    },
    /// Classes with fewer than two images: none would be left to ask for.
    TooSmall {
        /// Names and numbers of images.
        classes: Vec<(String, usize)>,
    },
}

impl Problem {
    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Problem::BadFile(bad) => bad.fault.advice(),
            Problem::Duplicate { .. } => "keep the file in the class it belongs to and remove the others",
            Problem::Repeated { .. } => {
                "remove all but one: a copy in support and query flatters every result"
            }
            Problem::SameButForCase { .. } => "rename one class, or merge them",
            Problem::TooSmall { .. } => {
                "add images or remove the class: an episode needs at least shot + 1 images per class"
            }
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Problem::BadFile(bad) => write!(f, "{bad}"),
            Problem::Duplicate { images } => {
                let names: Vec<_> = images.iter().map(|(image, _)| image.as_str()).collect();
                write!(f, "the same image is in different classes: {}", names.join(", "))
            }
            Problem::Repeated { class, images } => {
                write!(f, "the same image is more than once in class {class}: {}", images.join(", "))
            }
            Problem::SameButForCase { classes } => {
                write!(f, "the classes {} differ only in upper and lower case", classes.join(", "))
            }
            Problem::TooSmall { classes } => {
                let names: Vec<_> = classes.iter().map(|(name, n)| format!("{name} ({n})")).collect();
                write!(f, "classes with fewer than 2 images: {}", names.join(", "))
            }
        }
    }
}

/// Looks at a data set that is open.
pub fn check(opened: &Opened) -> Report {
    let items = &opened.items;
    let classes = items.classes();
    let by_size = |c: &&crate::Class| (c.images.len(), c.name.clone());
    let named = |c: &crate::Class| (c.name.clone(), c.images.len());
    let mut problems: Vec<Problem> = opened.bad.iter().cloned().map(Problem::BadFile).collect();
    problems.extend(duplicates(items));
    problems.extend(same_but_for_case(items));
    let small: Vec<_> = classes.iter().filter(|c| c.images.len() < 2).map(named).collect();
    if !small.is_empty() {
        problems.push(Problem::TooSmall { classes: small });
    }
    let (mut grey, mut colour, mut sizes) = (0, 0, None);
    if let Items::Images(data) = items {
        for index in 0..data.len() {
            let (width, height, channels) = data.image_size(index);
            *(if channels == 1 { &mut grey } else { &mut colour }) += 1;
            let [(a, b), (c, d)] = sizes.unwrap_or([(width, height); 2]);
            sizes = Some([(a.min(width), b.min(height)), (c.max(width), d.max(height))]);
        }
    }
    Report {
        name: items.name().to_owned(),
        layout: opened.layout.clone(),
        content_hash: items.content_hash().to_hex().to_string(),
        classes: classes.len(),
        images: classes.iter().map(|c| c.images.len()).sum(),
        smallest: classes.iter().min_by_key(by_size).map(named),
        largest: classes.iter().max_by_key(by_size).map(named),
        grey,
        colour,
        sizes,
        splits: count_splits(opened),
        problems,
        ignored: opened.ignored.clone(),
    }
}

/// Classes and images of each part of each split.
pub fn count_splits(opened: &Opened) -> Vec<SplitCount> {
    let count = |scheme: &crate::Scheme| {
        let splits = scheme.apply(&opened.items);
        let parts = SplitName::ALL.map(|name| (splits.get(name).classes.len(), splits.get(name).len()));
        SplitCount { name: scheme.name.clone(), parts }
    };
    opened.schemes.iter().map(count).collect()
}

/// Images whose files are the same, byte by byte.
fn duplicates(items: &Items) -> Vec<Problem> {
    let Items::Images(data) = items else { return Vec::new() };
    let mut by_hash: HashMap<blake3::Hash, Vec<usize>> = HashMap::new();
    for index in 0..data.len() {
        by_hash.entry(data.image_hash(index)).or_default().push(index);
    }
    let mut groups: Vec<_> = by_hash.into_values().filter(|group| group.len() > 1).collect();
    groups.sort();
    let class = |index: &usize| data.classes[data.class_of(*index)].name.clone();
    let name = |index: &usize| data.image_name(*index).to_owned();
    let problem = |group: Vec<usize>| {
        let first = class(&group[0]);
        if group.iter().all(|i| class(i) == first) {
            Problem::Repeated { class: first, images: group.iter().map(name).collect() }
        } else {
            Problem::Duplicate { images: group.iter().map(|i| (name(i), class(i))).collect() }
        }
    };
    let mut problems: Vec<_> = groups.into_iter().map(problem).collect();
    problems.sort_by_key(|p| matches!(p, Problem::Repeated { .. }));
    problems
}

fn same_but_for_case(items: &Items) -> Vec<Problem> {
    let mut by_lower: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for class in items.classes() {
        by_lower.entry(class.name.to_lowercase()).or_default().push(class.name.clone());
    }
    let alike = by_lower.into_values().filter(|names| names.len() > 1);
    alike.map(|classes| Problem::SameButForCase { classes }).collect()
}
