//! The name a person probably meant.

/// The candidate nearest to `wanted` by edit distance, if it is near at all; ties go to the alphabetically first.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let wanted_lower = wanted.to_lowercase();
    candidates
        .into_iter()
        .map(|name| (edit_distance(&wanted_lower, &name.to_lowercase()), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + wanted.len().max(name.len()) / 3)
        .map(|(_, name)| name.to_owned())
}

/// Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_known_pairs() {
        for (a, b, d) in [("kitten", "sitting", 3), ("", "abc", 3), ("cub", "cub", 0), ("flaw", "lawn", 2)] {
            assert_eq!(edit_distance(a, b), d, "{a} {b}");
            assert_eq!(edit_distance(b, a), d, "{b} {a}");
        }
    }

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = ["omniglot", "emnist", "cub"];
        assert_eq!(nearest("omnigolt", names).as_deref(), Some("omniglot"));
        assert_eq!(nearest("EMNIST", names).as_deref(), Some("emnist"));
        assert_eq!(nearest("imagenet-21k", names), None);
    }
}
