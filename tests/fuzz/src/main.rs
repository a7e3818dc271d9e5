//! The parser that the environment names, under libFuzzer.
#![no_main]

use std::{env, sync::LazyLock};

use wad_fuzz::{Parser, parser};

static PARSER: LazyLock<Parser> = LazyLock::new(|| {
    let name = env::var("WAD_FUZZ_PARSER").unwrap_or_default();
    parser(&name).unwrap_or_else(|| panic!("WAD_FUZZ_PARSER names no parser: {name:?}"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| PARSER(bytes));
