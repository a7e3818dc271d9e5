//! The authors of a binary's crates ask for one thing when it is given away: their names
//! and their licences, word for word.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{Bill, Crate};

/// musl, the C library of the static binaries, comes with the compiler, without this.
const MUSL: &str = include_str!("musl.txt");

/// Files of a crate are its licences, or notices to pass on, if their names begin so.
const BEGINNINGS: [&str; 6] = ["copying", "copyright", "licence", "license", "notice", "unlicense"];

impl Bill {
    /// Returns the notices: a text is there once, with all the crates that have it.
    pub fn notices(&self) -> Result<String> {
        let mut by_text: BTreeMap<String, (String, Vec<&Crate>)> = BTreeMap::new();
        let mut without_text = Vec::new();
        for found in self.crates.iter().filter(|found| !found.is_own()) {
            let texts = texts(found)?;
            if texts.is_empty() {
                without_text.push(found);
            }
            for text in texts {
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                by_text.entry(words).or_insert((text, Vec::new())).1.push(found);
            }
        }
        let mut groups: Vec<_> = by_text.into_values().collect();
        groups.sort_by_key(|(text, crates)| (crates[0].key(), text.clone()));

        let mut out = format!(
            "wad is a static binary: what is listed here is in it. Its own licences are in \
             LICENSE-MIT\nand LICENSE-APACHE.\n\n\
             The standard library of Rust {} is under MIT OR Apache-2.0, copyright The Rust \
             Project\nDevelopers, and has parts of others: \
             https://github.com/rust-lang/rust/blob/{}/COPYRIGHT\n",
            self.compiler, self.compiler
        );
        section(&mut out, "musl, the C library", MUSL)?;
        for (text, crates) in groups {
            section(&mut out, &list(&crates), &text)?;
        }
        if !without_text.is_empty() {
            let under = "Their packages have no text of a licence; wad takes them under \
                         Apache-2.0, as in LICENSE-APACHE.";
            let others = without_text.iter().find(|found| !found.licence.contains("Apache-2.0"));
            if let Some(Crate { name, version, licence, .. }) = others {
                bail!("{name} {version}: its package has no text of its licence, {licence}");
            }
            section(&mut out, &list(&without_text), under)?;
        }
        Ok(out)
    }
}

/// Returns a line for each crate.
fn list(crates: &[&Crate]) -> String {
    let line = |found: &&Crate| {
        let at = found.repository.as_deref().unwrap_or_default();
        format!("{} {} ({}) {at}", found.name, found.version, found.licence)
    };
    crates.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn section(out: &mut String, title: &str, text: &str) -> Result<()> {
    let line = "-".repeat(80);
    Ok(write!(out, "\n{line}\n{title}\n\n{}\n", text.trim_matches('\n').trim_end())?)
}

/// Returns what a crate's package has of licences and notices, by the files' names.
fn texts(found: &Crate) -> Result<Vec<String>> {
    let failed = || found.folder.display().to_string();
    let mut files = Vec::new();
    for entry in fs::read_dir(&found.folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let is_file = entry.file_type().with_context(failed)?.is_file();
        if is_file && BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
            files.push(entry.path());
        }
    }
    files.sort();
    let read = |file: PathBuf| {
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
    };
    files.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::bill::Bill;

    #[test]
    fn everyone_is_named_once_for_each_text() {
        let notices = Bill::of("x86_64-unknown-linux-musl").unwrap().notices().unwrap();
        assert!(notices.contains("\ntokio 1."), "{notices}");
        assert!(notices.contains("\nring 0."));
        assert!(notices.contains("\naya-ebpf "));
        assert!(notices.contains("Rich Felker"));
        // A title ends with an empty line.
        let texts: Vec<String> = notices
            .split(&"-".repeat(80))
            .filter_map(|section| section.trim_start().split_once("\n\n"))
            .map(|(_, text)| text.split_whitespace().collect())
            .collect();
        let distinct: BTreeSet<&String> = texts.iter().collect();
        assert!(texts.len() > 30 && distinct.len() == texts.len(), "{}", texts.len());
        assert!(!notices.contains("\nwad"));
    }
}
