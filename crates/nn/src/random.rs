//! Named, seekable random streams.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The stream of (seed, name, index): ChaCha8 keyed by seed and name, with `index` as ChaCha's stream number.
pub fn stream(seed: u64, name: &str, index: u64) -> ChaCha8Rng {
    let mut key = blake3::Hasher::new();
    key.update(&seed.to_le_bytes());
    key.update(name.as_bytes());
    let mut rng = ChaCha8Rng::from_seed(*key.finalize().as_bytes());
    rng.set_stream(index);
    rng
}
