#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| siskin_data::fuzzing::csv_list(bytes));
