//! Precomputed features: vectors in place of images, with the same classes and splits.

use std::collections::HashSet;

use crate::dataset::hash_text;
use crate::{Class, Error, Result};

/// Vectors of one data set, row by row, sorted by class.
#[derive(Debug, Clone)]
pub struct Embeddings {
    /// Name of the data set.
    pub name: String,
    /// Its classes; their ranges of rows follow one another.
    pub classes: Vec<Class>,
    /// Whether a method's network still has to see the vectors; else they are its features.
    pub network_input: bool,
    dim: usize,
    vectors: Vec<f32>,
    source_rows: Vec<usize>,
    content_hash: blake3::Hash,
}

impl Embeddings {
    /// `vectors`: [N, dim] row-major; `labels`: one class index of `names` a row. Rows are sorted by class, their
    /// order within a class kept.
    pub fn new(
        name: impl Into<String>,
        names: Vec<String>,
        dim: usize,
        vectors: &[f32],
        labels: &[usize],
    ) -> Result<Self> {
        let name = name.into();
        if dim == 0 || vectors.len() != dim * labels.len() {
            return Err(Error::EmbeddingShape { values: vectors.len(), dim, rows: labels.len() });
        }
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|n| !seen.insert(*n)) {
            return Err(Error::DuplicateClass { dataset: name, name: twice.clone() });
        }
        let mut rows_of = vec![Vec::new(); names.len()];
        for (row, &label) in labels.iter().enumerate() {
            rows_of.get_mut(label).ok_or(Error::Label { row, label, classes: names.len() })?.push(row);
            let values = &vectors[row * dim..(row + 1) * dim];
            if let Some(col) = values.iter().position(|v| !v.is_finite()) {
                return Err(Error::NotFinite { row, col, value: values[col] });
            }
        }
        let mut hasher = blake3::Hasher::new();
        let (mut classes, mut sorted, mut source_rows) = (Vec::new(), Vec::new(), Vec::new());
        for (class, rows) in names.into_iter().zip(rows_of) {
            let start = source_rows.len();
            hash_text(&mut hasher, &class);
            hasher.update(&(rows.len() as u64).to_le_bytes());
            for row in rows {
                for value in &vectors[row * dim..(row + 1) * dim] {
                    hasher.update(&value.to_le_bytes());
                    sorted.push(*value);
                }
                source_rows.push(row);
            }
            classes.push(Class { name: class, images: start..source_rows.len(), domain: name.clone() });
        }
        let content_hash = hasher.finalize();
        let network_input = false;
        Ok(Embeddings { name, classes, network_input, dim, vectors: sorted, source_rows, content_hash })
    }

    /// Gives the data set another name; classes that have its name for a domain follow.
    pub(crate) fn rename(&mut self, name: &str) {
        for class in &mut self.classes {
            if class.domain == self.name {
                name.clone_into(&mut class.domain);
            }
        }
        name.clone_into(&mut self.name);
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.source_rows.len()
    }

    /// Whether there is no vector.
    pub fn is_empty(&self) -> bool {
        self.source_rows.is_empty()
    }

    /// Length of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Vector `index`, of `0..len()`. Panics beyond, as a slice does.
    pub fn vector(&self, index: usize) -> &[f32] {
        &self.vectors[index * self.dim..(index + 1) * self.dim]
    }

    /// The row of the source that vector `index` was.
    pub fn source_row(&self, index: usize) -> usize {
        self.source_rows[index]
    }

    /// The class that vector `index` belongs to.
    pub fn class_of(&self, index: usize) -> usize {
        self.classes.partition_point(|class| class.images.end <= index)
    }

    /// Hash of class names and vectors.
    pub fn content_hash(&self) -> blake3::Hash {
        self.content_hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_class_and_remember_where_they_were() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let data = Embeddings::new("e", names, 2, &[0., 1., 2., 3., 4., 5.], &[1, 0, 1]).unwrap();
        assert_eq!(data.classes[0].images, 0..1);
        assert_eq!(data.classes[1].images, 1..3);
        assert_eq!(data.vector(0), [2., 3.]);
        assert_eq!(data.vector(2), [4., 5.]);
        assert_eq!((data.source_row(0), data.source_row(1), data.class_of(2)), (1, 0, 1));
    }

    #[test]
    fn wrong_numbers_are_named() {
        let new = |v: &[f32], l: &[usize]| Embeddings::new("e", vec!["a".to_owned()], 2, v, l);
        assert!(matches!(new(&[0., 1., 2.], &[0]), Err(Error::EmbeddingShape { values: 3, .. })));
        assert!(matches!(new(&[0., 1.], &[1]), Err(Error::Label { row: 0, label: 1, classes: 1 })));
        assert!(matches!(new(&[0., f32::NAN], &[0]), Err(Error::NotFinite { row: 0, col: 1, .. })));
    }
}
