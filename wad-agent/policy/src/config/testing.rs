//! Helps the tests of configurations, with what they have in common.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Host, InterfacePattern, Loadable, interface};

/// Returns a host that is the same on every machine.
pub fn host() -> Host {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Host {
        congestion_controls: owned(&["reno", "cubic"]),
        loadable: Loadable::Known(owned(&["bbr", "highspeed", "scalable", "vegas"])),
        users: [("root".to_owned(), 0), ("globus".to_owned(), 993)].into(),
        groups: [("root".to_owned(), 0), ("netops".to_owned(), 994)].into(),
        ..Host::default()
    }
}

/// Returns the pattern of interfaces of a path that has this one.
pub fn interface(text: &str) -> Option<InterfacePattern> {
    interface::parse(text).ok()
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a message with a file, which `WAD_BLESS=1` writes.
pub fn compare(message: &str, golden: &Path) {
    if std::env::var_os("WAD_BLESS").is_some() {
        fs::write(golden, message).expect("writable");
    }
    let expected = fs::read_to_string(golden).unwrap_or_default();
    assert_eq!(message, expected, "{}; WAD_BLESS=1 writes it anew", golden.display());
}
