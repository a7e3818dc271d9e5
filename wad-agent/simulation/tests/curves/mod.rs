//! The reviewed curves are in this folder. `WAD_BLESS=1 cargo test -p wad-simulation`
//! writes them anew; then it is the difference that needs a review.

use std::{env, fs, path::Path};

/// Compares a curve with the reviewed one of that name.
pub fn check(name: &str, now: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/curves").join(name);
    let file = file.with_extension("txt");
    if env::var_os("WAD_BLESS").is_some() {
        fs::write(&file, now).unwrap();
    }
    let reviewed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        now == reviewed,
        "not as reviewed in {}; if it is better, WAD_BLESS=1 keeps it:\n{now}",
        file.display()
    );
}
