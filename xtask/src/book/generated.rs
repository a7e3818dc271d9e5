//! Some pages are made from tables, and stand in the repository as well, so that they
//! can be read there and a change of them is seen in review.

use std::{collections::BTreeMap, ffi::OsString, fs, path::Path};

use anyhow::{Context as _, Result};

/// The first line of a made page is this.
pub const MARK: &str = "<!-- Made from the program's own tables by `cargo xtask book --write`. -->";

/// Holds the committed pages against fresh ones; says which are not the same.
pub fn compare(fresh: &Path, committed: &Path) -> Result<Vec<String>> {
    let fresh = marked(fresh)?;
    let committed = marked(committed)?;
    let mut problems = Vec::new();
    let renew = "`cargo xtask book --write` renews it";
    for (name, text) in &fresh {
        let name_shown = name.display();
        match committed.get(name) {
            None => problems.push(format!("{name_shown} of the reference is missing: {renew}")),
            Some(old) if old != text => {
                let line = 1 + old.lines().zip(text.lines()).take_while(|(a, b)| a == b).count();
                problems.push(format!(
                    "{name_shown} of the reference is stale from line {line} on: {renew}"
                ));
            }
            Some(_) => {}
        }
    }
    for name in committed.keys().filter(|name| !fresh.contains_key(*name)) {
        let name = name.display();
        problems.push(format!("{name} of the reference is made from no table: remove it"));
    }
    Ok(problems)
}

/// Writes the fresh pages over the committed ones.
pub fn renew(fresh: &Path, committed: &Path) -> Result<()> {
    for (name, text) in marked(fresh)? {
        let file = committed.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Returns the made pages of a folder, by their names.
fn marked(folder: &Path) -> Result<BTreeMap<OsString, String>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let file = entry.path();
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        if text.starts_with(MARK) {
            pages.insert(entry.file_name(), text);
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_page_is_a_problem_until_it_is_renewed() {
        let [fresh, committed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let write = |folder: &Path, name: &str, text: &str| {
            fs::write(folder.join(name), format!("{MARK}\n{text}")).unwrap();
        };
        write(fresh.path(), "a.md", "one\ntwo\n");
        write(committed.path(), "a.md", "one\n2\n");
        write(fresh.path(), "b.md", "");
        fs::write(committed.path().join("by-hand.md"), "# By hand\n").unwrap();
        let compared = || compare(fresh.path(), committed.path()).unwrap();
        assert_eq!(
            compared(),
            [
                "a.md of the reference is stale from line 3 on: `cargo xtask book --write` renews it",
                "b.md of the reference is missing: `cargo xtask book --write` renews it",
            ]
        );
        renew(fresh.path(), committed.path()).unwrap();
        assert_eq!(compared(), [""; 0]);
        write(committed.path(), "c.md", "");
        assert_eq!(compared(), ["c.md of the reference is made from no table: remove it"]);
    }
}
