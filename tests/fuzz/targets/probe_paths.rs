#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wad_commands::fuzz::probe_paths(bytes));
