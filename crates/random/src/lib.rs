//! Named, seekable random streams: which numbers does draw `index` of purpose `name` get?
//!
//! A stream is ChaCha8 keyed by (seed, name), with `index` as ChaCha's stream number. Two streams that differ in
//! any of the three never share a block, and each can be opened without walking through the others.
//!
//! Every random number of the workspace comes from here, so this crate stands below all others and knows nothing of them.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Words of ChaCha output that belong to one position of a stream, see [`stream_at`].
const WORDS_PER_POSITION: u32 = 20;

/// The stream of (seed, name, index).
pub fn stream(seed: u64, name: &str, index: u64) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(name.as_bytes());
    let mut rng = ChaCha8Rng::from_seed(*hasher.finalize().as_bytes());
    rng.set_stream(index);
    rng
}

/// The stream of (seed, name, index) from `position` on, where a position is 2^20 words long.
///
/// Image `position` of episode `index` draws its augmentation here, so it does not matter which thread draws it.
pub fn stream_at(seed: u64, name: &str, index: u64, position: u64) -> ChaCha8Rng {
    let mut rng = stream(seed, name, index);
    rng.set_word_pos(u128::from(position) << WORDS_PER_POSITION);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn each_part_of_the_name_changes_the_stream() {
        let first = stream(1, "episode", 2).next_u64();
        assert_eq!(first, stream(1, "episode", 2).next_u64());
        for mut other in [stream(2, "episode", 2), stream(1, "augment", 2), stream(1, "episode", 3)] {
            assert_ne!(first, other.next_u64());
        }
        assert_ne!(first, stream_at(1, "episode", 2, 1).next_u64());
        assert_eq!(first, stream_at(1, "episode", 2, 0).next_u64());
    }

    /// Published episode lists and runs depend on these bytes: they must never change.
    #[test]
    fn the_bytes_are_fixed() {
        assert_eq!(stream(0, "episode", 0).next_u64(), 7263673200965142866);
        assert_eq!(stream_at(7, "augment", 3, 5).next_u64(), 12638604869817166492);
    }
}
