//! Reads the names of hosts that a path is for.

use std::{collections::HashSet, net::IpAddr};

use super::{
    fault::{Fault, Problems, quoted},
    table::{self, Table},
};

/// Most characters of a name, without a dot at its end (RFC 1035, section 3.1), and of each
/// part of it.
const MOST_BYTES: usize = 253;
const MOST_LABEL_BYTES: usize = 63;

/// Returns the names, each once, in small letters.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Vec<String> {
    let names = table.read_list("remote_name", problems, |value| parse(table::text(value)?));
    let mut seen = HashSet::new();
    let names = names.unwrap_or_default().into_iter().map(|name| name.value);
    names.filter(|name| seen.insert(name.clone())).collect()
}

pub fn parse(text: &str) -> Result<String, Fault> {
    let wrong = |label: &str| {
        Fault::new(format!("{} is no name of a host", quoted(text)), label)
            .help("write its whole name, such as \"dtn.example.org\"; no search list is used")
    };
    if text.parse::<IpAddr>().is_ok() {
        let fault = Fault::new(format!("{text} is an address"), "no name to look up");
        return Err(fault.help("write it as `remote`"));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.len() > MOST_BYTES {
        return Err(wrong("it is too long"));
    }
    for label in name.split('.') {
        let is_known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if label.is_empty() || label.len() > MOST_LABEL_BYTES || !label.chars().all(is_known) {
            return Err(wrong("letters, digits and - stand between dots, 63 at most"));
        }
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_and_in_small_letters() {
        let long = ["a"; 127].join(".");
        for (text, name) in [
            ("dtn.example.org", "dtn.example.org"),
            ("DTN.Example.org.", "dtn.example.org"),
            ("dtn_1.xn--bcher-kva.example", "dtn_1.xn--bcher-kva.example"),
            ("localhost", "localhost"),
            (&long, &long),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(name));
        }
        let (long, label) = (["a"; 128].join("."), "a".repeat(64));
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a b",
            "b\u{fc}cher.example",
            "*.a",
            "192.0.2.1",
            "::1",
            &long,
            &label,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
