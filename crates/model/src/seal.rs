//! A checksum over a whole safetensors file, within the record of its header: what checkpoints and model files share.
//!
//! The record begins with `{"checksum": ...`. The checksum is the blake3 hash of all bytes of the file with 64 zeros in its
//! place, so that a changed byte anywhere is found.

/// What stands in the place of the checksum while it is computed.
pub const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// What stands before the checksum in the bytes of a file: JSON within JSON.
const BEFORE: &[u8] = br#"{\"checksum\":\""#;

/// Puts the checksum of a file in the place of its [`ZEROS`].
pub fn seal(bytes: &mut [u8]) -> Result<(), String> {
    let place = place(bytes).ok_or("its header has no place for a checksum")?;
    let checksum = blake3::hash(bytes).to_hex();
    bytes[place..place + ZEROS.len()].copy_from_slice(checksum.as_bytes());
    Ok(())
}

/// An error if a byte of a sealed file has changed.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let place = place(bytes).ok_or("it is damaged: its checksum is not in its place")?;
    let end = place + ZEROS.len();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..place]).update(ZEROS.as_bytes()).update(&bytes[end..]);
    match hasher.finalize().to_hex().as_bytes() == &bytes[place..end] {
        true => Ok(()),
        false => Err("it is damaged: the checksum does not fit".into()),
    }
}

/// [`check`] for a checkpoint, whose formats 1 and 2 had no checksum. A record with a checksum is checked whatever format it calls
/// itself: that may be what is damaged. `false` if it has none.
pub fn check_checkpoint(bytes: &[u8], record: &serde_json::Value) -> Result<bool, String> {
    let unsealed = record.get("checksum").is_none() && matches!(record["version"].as_u64(), Some(1 | 2));
    if unsealed { Ok(false) } else { check(bytes).map(|()| true) }
}

/// What people are told who use a file of an earlier format; `cure`: how to get one with a checksum.
pub fn notice(what: &str, cure: &str) -> String {
    format!("{what} is of an earlier format, without a checksum: damage to it would not be noticed. {cure}")
}

/// Where the checksum stands.
fn place(bytes: &[u8]) -> Option<usize> {
    let length = usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()?;
    let header = bytes.get(8..length.checked_add(8)?)?;
    let start = header.windows(BEFORE.len()).position(|window| window == BEFORE)? + 8 + BEFORE.len();
    (bytes.len() >= start + ZEROS.len()).then_some(start)
}
