#![no_main]

// The first byte chooses the kind of archive, the rest is its content.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, content)) = bytes.split_first() else { return };
    let Ok(folder) = tempfile::tempdir() else { return };
    let name = ["x.tar", "x.tar.gz", "x.zip"][usize::from(*kind) % 3];
    siskin_data::fuzzing::archive(content, folder.path(), name);
});
