//! The files of a folder; and made-up ones, for tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Finds sources that are not among those that were read: what cargo builds has no module
/// for them, or one that only the compiler sees, as in a macro. And those that are links.
pub fn refused(root: &Path, read: &BTreeSet<&PathBuf>) -> Vec<String> {
    let sources = ending(root, ".rs");
    let unread = sources.iter().filter(|file| !read.contains(file)).map(|file| {
        format!("{}: nothing has this as a module: write `mod`, outside macros", file.display())
    });
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|error| fail(path, &error));
    let is_link = |file: &&&PathBuf| {
        let place = file.strip_prefix(root).expect("in the repository");
        whole(root).join(place) != whole(file)
    };
    let links = read.iter().filter(is_link).map(|file| {
        format!("{}: a link hides whose file it is: make what several need a crate", file.display())
    });
    unread.chain(links).collect()
}

/// Finds the files of the repository whose names end so: all but what is hidden, and what
/// cargo has built.
pub fn ending(root: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| fail(&folder, &error));
        for entry in entries {
            let path = entry.unwrap_or_else(|error| fail(&folder, &error)).path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || path == root.join("target") {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if name.ends_with(end) {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    found
}

pub fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| fail(file, &error))
}

fn fail(path: &Path, error: &std::io::Error) -> ! {
    panic!("{}: {error}", path.display())
}

/// Makes a folder of these files, each by its name and text.
#[cfg(test)]
pub fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, text) in files {
        let file = folder.path().join(file);
        fs::create_dir_all(file.parent().expect("in the folder")).expect("writable");
        fs::write(file, text).expect("writable");
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_nothing_reads_is_told() {
        let folder = folder(&[
            ("a/src/lib.rs", ""),
            ("a/src/lost.rs", ""),
            ("a/target/lost.rs", ""),
            ("target/debug/made.rs", ""),
            (".hidden/made.rs", ""),
        ]);
        let read = folder.path().join("a/src/lib.rs");
        let found = refused(folder.path(), &BTreeSet::from([&read]));
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("a/src/lost.rs: nothing has this as a module"));
        assert!(found[1].contains("a/target/lost.rs"));
    }

    #[test]
    fn a_source_that_is_a_link_is_told() {
        let folder = folder(&[("a/lib.rs", ""), ("b/lib.rs", "")]);
        let link = folder.path().join("a/own");
        std::os::unix::fs::symlink(folder.path().join("b"), &link).expect("writable");
        let read = ["a/lib.rs", "b/lib.rs", "a/own/lib.rs"].map(|file| folder.path().join(file));
        let found = refused(folder.path(), &read.iter().collect());
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("a/own/lib.rs: a link hides"));
    }
}
