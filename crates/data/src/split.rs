//! Which classes (and which of their images) training, validation and test may see.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Class, Dataset, Embeddings, Error, Result};

/// The three parts of a few-shot data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
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
    pub fn item_name(&self, index: usize) -> String {
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
    pub fn of_classes(name: SplitName, items: Items, classes: impl IntoIterator<Item = usize>) -> Self {
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
