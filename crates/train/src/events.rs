//! TensorBoard event files: scalars only, appended record by record.

use crate::error::{Result, io};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Appends scalars to one event file.
pub struct EventWriter {
    file: File,
    path: PathBuf,
}

impl EventWriter {
    /// Starts a new event file in `folder`.
    pub fn create(folder: &Path) -> Result<EventWriter> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let path = folder.join(format!("events.out.tfevents.{seconds:010}.siskin"));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(io("write the TensorBoard events", &path))?;
        let mut writer = EventWriter { file, path };
        let mut event = Vec::new();
        put_double(&mut event, 1, wall_time());
        put_bytes(&mut event, 3, b"brain.Event:2");
        writer.record(&event)?;
        Ok(writer)
    }

    /// One value of the curve `tag` at `step`.
    pub(crate) fn scalar(&mut self, tag: &str, step: u64, value: f64) -> Result<()> {
        self.record(&scalar_event(tag, step, value as f32, wall_time()))
    }

    /// The record format: length, its checksum, the data, its checksum.
    fn record(&mut self, data: &[u8]) -> Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let mut bytes = Vec::with_capacity(data.len() + 16);
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&masked_crc32c(&length).to_le_bytes());
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(&masked_crc32c(data).to_le_bytes());
        self.file.write_all(&bytes).map_err(io("write the TensorBoard events", &self.path))
    }
}

fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// `Event { wall_time = 1, step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } } }` in protobuf's wire format.
fn scalar_event(tag: &str, step: u64, value: f32, wall_time: f64) -> Vec<u8> {
    let mut inner = Vec::new();
    put_bytes(&mut inner, 1, tag.as_bytes());
    inner.push(2 << 3 | 5);
    inner.extend_from_slice(&value.to_le_bytes());
    let mut summary = Vec::new();
    put_bytes(&mut summary, 1, &inner);
    let mut event = Vec::new();
    put_double(&mut event, 1, wall_time);
    event.push(2 << 3);
    put_varint(&mut event, step);
    put_bytes(&mut event, 5, &summary);
    event
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_double(out: &mut Vec<u8>, field: u8, value: f64) {
    out.push(field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// CRC-32C (Castagnoli), bit by bit: event records are tens of bytes.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| (c >> 1) ^ (0x82f6_3b78 & (c & 1).wrapping_neg()))
    })
}

fn masked_crc32c(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_of_the_standard_check_string() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_scalar_event_has_the_bytes_protobuf_gives() {
        // Independent: the fields by hand, tag "a", step 300, value 1.0, time 0.
        let expected: Vec<u8> = [
            vec![0x09, 0, 0, 0, 0, 0, 0, 0, 0],
            vec![0x10, 0xac, 0x02],
            vec![0x2a, 0x0a, 0x0a, 0x08, 0x0a, 0x01, b'a', 0x15, 0x00, 0x00, 0x80, 0x3f],
        ]
        .concat();
        assert_eq!(scalar_event("a", 300, 1.0, 0.0), expected);
    }

    #[test]
    fn records_are_framed_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = EventWriter::create(folder.path()).unwrap();
        writer.scalar("loss", 1, 0.5).unwrap();
        let bytes = std::fs::read(&writer.path).unwrap();
        let mut at = 0;
        let mut records = 0;
        while at < bytes.len() {
            let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            assert_eq!(bytes[at + 8..at + 12], masked_crc32c(&bytes[at..at + 8]).to_le_bytes());
            let data = &bytes[at + 12..at + 12 + length];
            assert_eq!(bytes[at + 12 + length..at + 16 + length], masked_crc32c(data).to_le_bytes());
            at += 16 + length;
            records += 1;
        }
        assert_eq!(records, 2);
    }
}
