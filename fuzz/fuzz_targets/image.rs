#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| siskin_data::fuzzing::image(bytes));
