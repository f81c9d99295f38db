//! Which classes may be drawn together? A pool is one: a whole split, or one domain of it.

use std::collections::{BTreeMap, HashSet};

use super::spec::{EpisodeSpec, ShortClasses};
use crate::{Error, Result, Split};

/// Classes that can be drawn together.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// Which split.
    pub split: usize,
    /// Positions in `Split::classes`.
    pub classes: Vec<usize>,
}

/// Something a sampler leaves out, because the config says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// A class with too few images.
    Class {
        /// Data set and class.
        name: String,
        /// Images it has.
        images: usize,
    },
    /// A domain with too few classes.
    Domain {
        /// Its name.
        name: String,
        /// Classes it has, short ones not counted.
        classes: usize,
    },
}

/// The pools of `splits` that episodes of `spec` can be drawn from, and what is left out.
pub(super) fn pools(splits: &[Split], spec: &EpisodeSpec) -> Result<(Vec<Pool>, Vec<Skipped>)> {
    one_part_of_each(splits)?;
    let (mut pools, mut skipped) = (Vec::new(), Vec::new());
    for (index, split) in splits.iter().enumerate() {
        once_each(split)?;
        let long_enough = long_enough(split, spec, &mut skipped)?;
        for (domain, classes) in domains(split, long_enough, spec.within_domain) {
            let (have, need) = (classes.len(), spec.way.max());
            if have >= need {
                pools.push(Pool { split: index, classes });
            } else if spec.short_classes == ShortClasses::Skip && spec.within_domain {
                skipped.push(Skipped::Domain { name: domain, classes: have });
            } else {
                return Err(Error::FewClasses { of: domain, have, need });
            }
        }
    }
    if pools.is_empty() {
        let of = splits.iter().map(label).collect::<Vec<_>>().join(", ");
        return Err(Error::FewClasses { of, have: 0, need: spec.way.max() });
    }
    Ok((pools, skipped))
}

/// `data set (split)`.
fn label(split: &Split) -> String {
    format!("{} ({})", split.items.name(), split.name.as_str())
}

/// Several splits must be the same part of data sets with different names, or an episode list could not tell them
/// apart.
fn one_part_of_each(splits: &[Split]) -> Result<()> {
    let mut seen = HashSet::new();
    let distinct = splits.iter().all(|split| seen.insert(split.items.name()));
    if distinct && splits.iter().all(|split| split.name == splits[0].name) {
        return Ok(());
    }
    Err(Error::EpisodeSpec {
        field: "splits",
        value: splits.iter().map(label).collect::<Vec<_>>().join(", "),
        must: "be the same part of data sets with different names",
    })
}

fn once_each(split: &Split) -> Result<()> {
    let mut seen = HashSet::new();
    match split.classes.iter().position(|members| !seen.insert(members.class)) {
        None => Ok(()),
        Some(k) => Err(Error::DuplicateClass { dataset: label(split), name: split.class(k).name.clone() }),
    }
}

/// Positions of the classes with images enough; the others are refused or skipped.
fn long_enough(split: &Split, spec: &EpisodeSpec, skipped: &mut Vec<Skipped>) -> Result<Vec<usize>> {
    let needed = spec.needed();
    let (long, short): (Vec<usize>, Vec<usize>) =
        (0..split.classes.len()).partition(|&k| split.classes[k].items.len() >= needed);
    let named = |k: &usize| (split.class(*k).name.clone(), split.classes[*k].items.len());
    if spec.short_classes == ShortClasses::Skip {
        skipped.extend(short.iter().map(named).map(|(name, images)| Skipped::Class {
            name: format!("{}: {name}", split.items.name()),
            images,
        }));
    } else if !short.is_empty() {
        let classes = short.iter().map(named).collect();
        return Err(Error::ShortClasses { split: label(split), needed, classes });
    }
    Ok(long)
}

/// The classes grouped by domain (in order of name), or all in one group.
fn domains(split: &Split, classes: Vec<usize>, within_domain: bool) -> Vec<(String, Vec<usize>)> {
    if !within_domain {
        return vec![(label(split), classes)];
    }
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for k in classes {
        groups.entry(format!("{} of {}", split.class(k).domain, label(split))).or_default().push(k);
    }
    groups.into_iter().collect()
}
