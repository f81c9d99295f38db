//! One task: some classes, and of each some labelled and some query items.

/// An episode. Rows are class-major: all items of the first class, its support first, then the second class, ...
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Number of the episode.
    pub index: u64,
    /// Which of the source's splits its classes are from.
    pub split: usize,
    /// Its classes; the label of a class is its place here.
    pub classes: Vec<EpisodeClass>,
}

/// A class of an episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeClass {
    /// Index of the class in its data set.
    pub class: usize,
    /// Indices of the labelled items in the data set.
    pub support: Vec<usize>,
    /// Indices of the query items in the data set.
    pub query: Vec<usize>,
}

impl EpisodeClass {
    /// All items, support first.
    pub fn items(&self) -> impl Iterator<Item = usize> {
        self.support.iter().chain(&self.query).copied()
    }
}

impl Episode {
    /// Number of classes.
    pub fn way(&self) -> usize {
        self.classes.len()
    }

    /// The data-set item of each row.
    pub fn items(&self) -> Vec<usize> {
        self.classes.iter().flat_map(EpisodeClass::items).collect()
    }

    /// The label of each row.
    pub fn labels(&self) -> Vec<usize> {
        let rows = |class: &EpisodeClass| class.support.len() + class.query.len();
        (0..self.way()).flat_map(|label| std::iter::repeat_n(label, rows(&self.classes[label]))).collect()
    }

    /// The rows that are support.
    pub fn support_rows(&self) -> Vec<usize> {
        self.rows(|class| 0..class.support.len())
    }

    /// The rows that are queries.
    pub fn query_rows(&self) -> Vec<usize> {
        self.rows(|class| class.support.len()..class.support.len() + class.query.len())
    }

    fn rows(&self, of: impl Fn(&EpisodeClass) -> std::ops::Range<usize>) -> Vec<usize> {
        let mut first = 0;
        let mut rows = Vec::new();
        for class in &self.classes {
            rows.extend(of(class).map(|row| first + row));
            first += class.support.len() + class.query.len();
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_class_major_with_the_support_first() {
        let class = |class, support: &[usize], query: &[usize]| EpisodeClass {
            class,
            support: support.to_vec(),
            query: query.to_vec(),
        };
        let classes = vec![class(7, &[70, 71], &[72]), class(3, &[30], &[31, 32])];
        let episode = Episode { index: 0, split: 0, classes };
        assert_eq!(episode.items(), [70, 71, 72, 30, 31, 32]);
        assert_eq!(episode.labels(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(episode.support_rows(), [0, 1, 3]);
        assert_eq!(episode.query_rows(), [2, 4, 5]);
    }
}
