//! Texts as reviewed, in folders of `tests/` of the repository; `WAD_BLESS=1` writes them anew.

use std::{env, fs, path::Path};

/// Compares a text with the reviewed one of a folder.
pub fn check(folder: &str, name: &str, text: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let file = tests.join(folder).join(name).with_extension("txt");
    if env::var_os("WAD_BLESS").is_some() {
        fs::write(&file, text).expect("writable");
    }
    let reviewed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        text == reviewed,
        "not as reviewed in {}; if it is better, WAD_BLESS=1 keeps it:\n{text}",
        file.display()
    );
}
