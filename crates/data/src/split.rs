//! Which classes (and which of their images) training, validation and test may see.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::{Class, Dataset, Embeddings, Error, Result};

/// The three parts of a few-shot data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitName {
    /// Base classes.
    Train,
    /// Validation classes.
    Val,
    /// Novel classes.
    Test,
}

impl SplitName {
    /// All three, in order.
    pub const ALL: [SplitName; 3] = [SplitName::Train, SplitName::Val, SplitName::Test];

    /// `train`, `val` or `test`.
    pub fn as_str(self) -> &'static str {
        match self {
            SplitName::Train => "train",
            SplitName::Val => "val",
            SplitName::Test => "test",
        }
    }

    /// Position in [`SplitName::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// By any of the names in use: `train`, `base`, `background`; `val`, `valid`, `validation`; `test`, `novel`,
    /// `eval`, `evaluation`.
    pub fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "train" | "base" | "background" => Some(SplitName::Train),
            "val" | "valid" | "validation" => Some(SplitName::Val),
            "test" | "novel" | "eval" | "evaluation" => Some(SplitName::Test),
            _ => None,
        }
    }
}

impl std::fmt::Display for SplitName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a split selects from: images or precomputed vectors.
#[derive(Debug, Clone)]
pub enum Items {
    /// Images.
    Images(Arc<Dataset>),
    /// Precomputed vectors.
    Embeddings(Arc<Embeddings>),
}

impl Items {
    /// Name of the data set.
    pub fn name(&self) -> &str {
        match self {
            Items::Images(data) => &data.name,
            Items::Embeddings(data) => &data.name,
        }
    }

    /// All classes of the data set.
    pub fn classes(&self) -> &[Class] {
        match self {
            Items::Images(data) => &data.classes,
            Items::Embeddings(data) => &data.classes,
        }
    }

    /// What the data set holds, as a hash.
    pub fn content_hash(&self) -> blake3::Hash {
        match self {
            Items::Images(data) => data.content_hash(),
            Items::Embeddings(data) => data.content_hash(),
        }
    }

    /// Name of item `index`: an image's path within its source, or `row <n>` of a file of vectors.
    pub(crate) fn item_name(&self, index: usize) -> String {
        match self {
            Items::Images(data) => data.image_name(index).to_owned(),
            Items::Embeddings(data) => format!("row {}", data.source_row(index)),
        }
    }
}

/// A class of a split: which one it is, and those of its items the split may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// Index of the class in the data set.
    pub class: usize,
    /// Indices of its items in the data set, ascending.
    pub items: Vec<usize>,
}

/// Some classes of a data set, with the items of each that may be used.
#[derive(Debug, Clone)]
pub struct Split {
    /// Which part it is.
    pub name: SplitName,
    /// The data set it selects from.
    pub items: Items,
    /// The classes it holds.
    pub classes: Vec<Members>,
}

impl Split {
    /// Whole classes, by index. Panics on an index that does not exist, as a slice does.
    pub(crate) fn of_classes(
        name: SplitName,
        items: Items,
        classes: impl IntoIterator<Item = usize>,
    ) -> Self {
        let classes = classes
            .into_iter()
            .map(|class| Members { class, items: items.classes()[class].images.clone().collect() })
            .collect();
        Split { name, items, classes }
    }

    /// All classes of a data set (the base of the cross-domain protocol).
    pub fn all(name: SplitName, items: Items) -> Self {
        let count = items.classes().len();
        Self::of_classes(name, items, 0..count)
    }

    /// Whole classes, by name.
    pub fn of_names<S: AsRef<str>>(name: SplitName, items: Items, names: &[S]) -> Result<Self> {
        let index: HashMap<&str, usize> =
            items.classes().iter().enumerate().map(|(i, class)| (class.name.as_str(), i)).collect();
        let mut classes = Vec::with_capacity(names.len());
        for wanted in names {
            let wanted = wanted.as_ref();
            let found = index.get(wanted).ok_or_else(|| Error::UnknownClass {
                dataset: items.name().to_owned(),
                name: wanted.to_owned(),
                nearest: crate::nearest::nearest(wanted, index.keys().copied()),
            })?;
            classes.push(*found);
        }
        Ok(Self::of_classes(name, items, classes))
    }

    /// The data-set class behind class `k` of the split.
    pub fn class(&self, k: usize) -> &Class {
        &self.items.classes()[self.classes[k].class]
    }

    /// Number of items over all classes.
    pub fn len(&self) -> usize {
        self.classes.iter().map(|members| members.items.len()).sum()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.classes.iter().all(|members| members.items.is_empty())
    }
}

/// A way to split a data set, as it is stored with it: for each of the three parts the classes, and of each class
/// the items, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Scheme {
    /// Its name, e.g. `vinyals`.
    pub name: String,
    /// Training, validation, test: (class index, item indices or all).
    pub parts: [Vec<(usize, Option<Vec<usize>>)>; 3],
}

impl Scheme {
    /// Whole classes of a part by a rule over the class index: `None` for a class of no part.
    pub(crate) fn by_rule(name: &str, classes: usize, rule: impl Fn(usize) -> Option<SplitName>) -> Self {
        let mut parts: [Vec<_>; 3] = Default::default();
        for class in 0..classes {
            if let Some(split) = rule(class) {
                parts[split.index()].push((class, None));
            }
        }
        Scheme { name: name.to_owned(), parts }
    }

    /// Whole classes at random, `train` and `val` of them for the first two parts and the rest for the third.
    /// The same seed gives the same split.
    pub fn at_random(classes: usize, train: usize, val: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..classes).collect();
        order.shuffle(&mut siskin_random::stream(seed, "split", 0));
        let mut part_of = vec![SplitName::Test; classes];
        for (position, class) in order.into_iter().enumerate().take(train + val) {
            part_of[class] = if position < train { SplitName::Train } else { SplitName::Val };
        }
        Self::by_rule("default", classes, |class| Some(part_of[class]))
    }

    /// The split applied to the data set it was made for.
    pub fn apply(&self, items: &Items) -> Splits {
        let split = |name: SplitName| Split {
            name,
            items: items.clone(),
            classes: self.parts[name.index()]
                .iter()
                .map(|(class, members)| Members {
                    class: *class,
                    items: members
                        .clone()
                        .unwrap_or_else(|| items.classes()[*class].images.clone().collect()),
                })
                .collect(),
        };
        Splits { train: split(SplitName::Train), val: split(SplitName::Val), test: split(SplitName::Test) }
    }

    /// The split for the same data set with rotated classes: each class takes its three rotations along.
    /// `classes`, `items`: how many there were before.
    pub(crate) fn with_rotations(&self, classes: usize, items: usize) -> Self {
        let turn = |part: &Vec<(usize, Option<Vec<usize>>)>| {
            let turned = |turn: usize| {
                part.iter().map(move |(class, members)| {
                    let members = members.as_ref().map(|m| m.iter().map(|i| i + turn * items).collect());
                    (class + turn * classes, members)
                })
            };
            (0..4).flat_map(turned).collect()
        };
        Scheme { name: self.name.clone(), parts: self.parts.each_ref().map(turn) }
    }
}

/// Training, validation and test: of one data set, or of several (the cross-domain protocol).
#[derive(Debug, Clone)]
pub struct Splits {
    /// Base classes.
    pub train: Split,
    /// Validation classes.
    pub val: Split,
    /// Novel classes.
    pub test: Split,
}

impl Splits {
    /// One of the three.
    pub fn get(&self, name: SplitName) -> &Split {
        match name {
            SplitName::Train => &self.train,
            SplitName::Val => &self.val,
            SplitName::Test => &self.test,
        }
    }

    /// For a split without validation classes: the last `count` domains by name (for Omniglot, alphabets) leave
    /// training and become validation.
    pub fn hold_out_domains(mut self, count: usize) -> Result<Self> {
        let domain = |split: &Split, k: usize| split.class(k).domain.clone();
        let mut domains: Vec<String> =
            (0..self.train.classes.len()).map(|k| domain(&self.train, k)).collect();
        domains.sort_unstable();
        domains.dedup();
        let refused =
            |why: String| Error::HoldOut { dataset: self.train.items.name().to_owned(), count, why };
        if !self.val.classes.is_empty() {
            return Err(refused(format!(
                "the split has {} validation classes of its own",
                self.val.classes.len()
            )));
        }
        if count == 0 || count >= domains.len() {
            return Err(refused(format!("its training classes are of {} domains", domains.len())));
        }
        let held: HashSet<String> = domains.split_off(domains.len() - count).into_iter().collect();
        let (val, train) =
            (0..self.train.classes.len()).partition::<Vec<_>, _>(|&k| held.contains(&domain(&self.train, k)));
        let part = |ks: Vec<usize>| ks.into_iter().map(|k| self.train.classes[k].clone()).collect::<Vec<_>>();
        let (val, train) = (part(val), part(train));
        self.val = Split { name: SplitName::Val, items: self.train.items.clone(), classes: val };
        self.train.classes = train;
        Ok(self)
    }

    /// Cross-domain: base from `base` (all its classes), validation and novel from `target`.
    pub fn cross_domain(base: Items, target: &Splits) -> Self {
        Splits {
            train: Split::all(SplitName::Train, base),
            val: target.val.clone(),
            test: target.test.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::small;

    #[test]
    fn names_choose_classes_and_a_wrong_one_is_met_with_the_nearest() {
        let items = Items::Images(Arc::new(small(4, 3)));
        let split = Split::of_names(SplitName::Val, items.clone(), &["c3", "c1"]).unwrap();
        assert_eq!(split.classes[0], Members { class: 3, items: vec![9, 10, 11] });
        assert_eq!((split.class(1).name.as_str(), split.len()), ("c1", 6));
        let error = Split::of_names(SplitName::Val, items, &["c9"]).unwrap_err().to_string();
        assert!(error.contains("no class c9; did you mean c"), "{error}");
    }

    #[test]
    fn a_scheme_takes_its_rotations_along() {
        let data = small(3, 2);
        let by_image = (2, Some(vec![5]));
        let scheme = Scheme { name: "s".into(), parts: [vec![(1, None)], vec![], vec![by_image]] };
        let splits = scheme.apply(&Items::Images(Arc::new(data.clone())));
        assert_eq!(splits.train.classes[0].items, [2, 3]);
        assert_eq!(splits.test.classes[0].items, [5]);
        let turned = Items::Images(Arc::new(data.with_rotations().unwrap()));
        let splits = scheme.with_rotations(3, 6).apply(&turned);
        let names: Vec<_> = (0..4).map(|k| splits.train.class(k).name.clone()).collect();
        assert_eq!(names, ["c1", "c1_rot90", "c1_rot180", "c1_rot270"]);
        assert_eq!(splits.train.classes[3].items, [20, 21]);
        assert_eq!(splits.test.classes[1].items, [11]);
    }

    #[test]
    fn a_random_split_parts_all_classes_and_follows_its_seed() {
        let scheme = Scheme::at_random(20, 12, 3, 7);
        assert_eq!(scheme.parts.each_ref().map(Vec::len), [12, 3, 5]);
        let mut all: Vec<usize> = scheme.parts.iter().flatten().map(|(class, _)| *class).collect();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        assert_eq!(scheme, Scheme::at_random(20, 12, 3, 7));
        assert_ne!(scheme, Scheme::at_random(20, 12, 3, 8));
    }

    #[test]
    fn a_rule_gives_whole_classes() {
        let scheme = Scheme::by_rule("odd", 5, |i| (i % 2 == 1).then_some(SplitName::Val));
        assert_eq!(scheme.parts, [vec![], vec![(1, None), (3, None)], vec![]]);
    }

    #[test]
    fn the_last_domains_by_name_become_validation() {
        let mut data = small(4, 3);
        for (class, domain) in data.classes.iter_mut().zip(["Z", "B", "A", "Z"]) {
            class.domain = domain.into();
        }
        let items = Items::Images(Arc::new(data));
        let splits = || Splits {
            train: Split::all(SplitName::Train, items.clone()),
            val: Split::of_classes(SplitName::Val, items.clone(), []),
            test: Split::of_classes(SplitName::Test, items.clone(), []),
        };
        let held = splits().hold_out_domains(1).unwrap();
        let classes = |split: &Split| split.classes.iter().map(|m| m.class).collect::<Vec<_>>();
        assert_eq!((classes(&held.train), classes(&held.val)), (vec![1, 2], vec![0, 3]));
        assert_eq!(held.val.name, SplitName::Val);
        let held = splits().hold_out_domains(2).unwrap();
        assert_eq!(classes(&held.train), [2]);
        let all = splits().hold_out_domains(3).unwrap_err().to_string();
        assert!(all.contains("of 3 domains"), "{all}");
        let twice = held.hold_out_domains(1).unwrap_err().to_string();
        assert!(twice.contains("3 validation classes of its own"), "{twice}");
    }

    #[test]
    fn cross_domain_takes_all_of_the_base_and_nothing_of_the_targets_base() {
        let target = Items::Images(Arc::new(small(4, 3)));
        let part = |name, class| Split::of_classes(name, target.clone(), [class]);
        let splits = Splits {
            train: part(SplitName::Train, 0),
            val: part(SplitName::Val, 1),
            test: part(SplitName::Test, 2),
        };
        let cross = Splits::cross_domain(Items::Images(Arc::new(small(2, 5))), &splits);
        assert_eq!((cross.train.classes.len(), cross.train.len()), (2, 10));
        assert_eq!(cross.get(SplitName::Test).classes[0].class, 2);
    }
}
