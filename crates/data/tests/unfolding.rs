//! Small files that unfold: what is taken for them is counted by the system. One test, for the whole process is counted.
#![cfg(target_os = "linux")]

use siskin_data::image::decode::{claim, decode_if};
use std::io::Write;

/// A PNG of 8 x 8 with a profile that unfolds to so many megabytes.
fn with_profile(megabytes: usize) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut encoder = png::Encoder::new(&mut plain, 8, 8);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[7; 64]).unwrap();
    let mut packer = flate2::write::ZlibEncoder::new(b"iCCPx\0\0".to_vec(), flate2::Compression::best());
    (0..megabytes).for_each(|_| packer.write_all(&[0; 1 << 20]).unwrap());
    let chunk = packer.finish().unwrap();
    let length = (chunk.len() as u32 - 4).to_be_bytes();
    let mut crc = flate2::Crc::new();
    crc.update(&chunk);
    [&plain[..33], &length, &chunk, &crc.sum().to_be_bytes(), &plain[33..]].concat()
}

/// A GIF of 10 x 10 whose frame has 16000 x 4000 pixels.
fn with_frame() -> Vec<u8> {
    b"GIF89a\x0a\0\x0a\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x80\x3e\xa0\x0f\0\x02\x02\x44\x01\0\x3b".to_vec()
}

/// The most memory that the process has held, in megabytes.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn a_file_takes_what_it_claims_at_most() {
    for file in [with_profile(4), with_profile(9), with_profile(500), with_frame()] {
        let before = most();
        let mut claimed = claim(&file).map_or(8 << 20, |claim| claim.memory);
        let decoded = decode_if(&file, None, |claim| {
            claimed = claim.memory;
            Ok(())
        });
        let grown = most() - before;
        // A part of what is claimed may be in use for longer than a moment; and the program has memory of its own.
        assert!(grown <= (claimed >> 20) + 16, "{grown} MB for {claimed} bytes: {:?}", decoded.err());
    }
}
