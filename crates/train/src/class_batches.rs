//! Mini-batches of base classes for methods that are pre-trained as ordinary classifiers.

use crate::error::{Error, Result};
use rand::seq::SliceRandom;
use siskin_data::{Episode, EpisodeClass, EpisodeSource, Split};
use siskin_random::stream;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Images by the place of their class in the split, and their item.
type Items = Vec<(usize, usize)>;

/// Shuffled passes over all images of a split, cut into batches of equal size; what does not fill the last batch of a pass
/// waits for another pass. Batch `index` is a pure function of (split, size, seed, index).
pub(crate) struct ClassBatches {
    split: [Split; 1],
    /// Of every image.
    items: Items,
    size: usize,
    seed: u64,
    /// The order of the pass that was asked for last: the next batch mostly comes from the same one.
    order: Mutex<Option<(u64, Items)>>,
}

impl ClassBatches {
    /// Batches of `size` images of `split`, or of all its images where it has fewer.
    pub(crate) fn new(split: Split, size: usize, seed: u64) -> Result<ClassBatches> {
        let classes = split.classes.iter().enumerate();
        let items: Items = classes
            .flat_map(|(label, members)| members.items.iter().map(move |&item| (label, item)))
            .collect();
        if items.is_empty() {
            return Err(Error::Run("the training split has no images".into()));
        }
        let size = size.clamp(1, items.len());
        Ok(ClassBatches { split: [split], items, size, seed, order: Mutex::new(None) })
    }

    /// The class of each row of a batch as its place in the split: what [`Episode::labels`] is within the batch.
    pub(crate) fn labels(&self, batch: &Episode) -> Vec<usize> {
        let place: BTreeMap<usize, usize> =
            self.split[0].classes.iter().enumerate().map(|(label, members)| (members.class, label)).collect();
        batch.labels().iter().map(|&local| place[&batch.classes[local].class]).collect()
    }

    /// Number of classes in the split.
    pub(crate) fn way(&self) -> usize {
        self.split[0].classes.len()
    }
}

impl EpisodeSource for ClassBatches {
    fn splits(&self) -> &[Split] {
        &self.split
    }

    fn episode(&self, index: u64) -> siskin_data::Result<Episode> {
        let per_pass = (self.items.len() / self.size) as u64;
        let (pass, place) = (index / per_pass, (index % per_pass) as usize);
        // A thread that panicked while it held the lock left no half-written order: the assignment is whole.
        let mut order = self.order.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (_, items) = match order.take() {
            Some(found) if found.0 == pass => order.insert(found),
            _ => {
                let mut items = self.items.clone();
                items.shuffle(&mut stream(self.seed, "batch", pass));
                order.insert((pass, items))
            }
        };
        let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &(label, item) in &items[place * self.size..(place + 1) * self.size] {
            classes.entry(label).or_default().push(item);
        }
        let class = |(label, query): (usize, Vec<usize>)| EpisodeClass {
            class: self.split[0].classes[label].class,
            support: Vec::new(),
            query,
        };
        Ok(Episode { index, split: 0, classes: classes.into_iter().map(class).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siskin_data::{Opened, SplitName};

    fn batches(size: usize) -> ClassBatches {
        let splits = Opened::glyphs().unwrap().splits(None).unwrap();
        ClassBatches::new(splits.get(SplitName::Train).clone(), size, 3).unwrap()
    }

    #[test]
    fn a_pass_shows_every_image_at_most_once_and_the_next_pass_has_another_order() {
        let batches = batches(16);
        let per_pass = (batches.items.len() / 16) as u64;
        let items = |range: std::ops::Range<u64>| -> Vec<usize> {
            range.flat_map(|i| batches.episode(i).unwrap().items()).collect()
        };
        let (first, second) = (items(0..per_pass), items(per_pass..2 * per_pass));
        assert_ne!(first, second);
        let mut once = first.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!((once.len(), first.len()), (first.len(), 16 * per_pass as usize));
    }

    #[test]
    fn labels_count_the_classes_of_the_split_and_any_batch_can_be_asked_for_alone() {
        let batches = batches(16);
        let batch = batches.episode(7).unwrap();
        let split = &batches.split[0];
        for (item, label) in batch.items().into_iter().zip(batches.labels(&batch)) {
            assert!(split.classes[label].items.contains(&item));
        }
        let alone = super::tests::batches(16);
        alone.episode(1_000_000).unwrap();
        assert_eq!(alone.episode(7).unwrap(), batch);
    }

    #[test]
    fn fewer_images_than_a_batch_make_one_batch_of_all() {
        let batches = batches(usize::MAX);
        let all = batches.items.len();
        assert_eq!(batches.episode(5).unwrap().items().len(), all);
    }
}
