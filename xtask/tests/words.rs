//! Documentation comments hold to the house style as far as a test can tell: none begins
//! as a sentence does that lacks its subject or its verb.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A first sentence that begins so mostly lacks its subject ("Of a flow that begins") or
/// its verb ("What a flow holds"), and can always be put another way.
const BEGINNINGS: [&str; 4] = ["Of", "That of", "Those", "What"];

#[test]
fn documentation_begins_with_its_subject() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("in the repository");
    let mut files = Vec::new();
    find(root, &mut files);
    assert!(files.len() > 500, "only {} files were found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.strip_prefix(root).unwrap_or(&file).display();
        wrong.extend(badly_begun(&text).map(|(line, words)| format!("{name}:{line}: {words}")));
    }
    assert!(wrong.is_empty(), "name the subject, with a verb:\n{}", wrong.join("\n"));
}

/// Finds the sources in a folder of the repository and below.
fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let (path, name) = (entry.path(), entry.file_name());
        let is_built = name == "target" || name.to_string_lossy().starts_with('.');
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !is_built {
                find(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the documentation comments of a source that begin with one of [`BEGINNINGS`]:
/// the number of the line, and the line's words.
fn badly_begun(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(documentation);
    let before = [None].into_iter().chain(text.lines().map(documentation));
    let first = lines.zip(before).zip(1..).filter_map(|((words, before), line)| {
        if before.is_some() { None } else { Some((line, words?)) }
    });
    first.filter(|(_, words)| {
        BEGINNINGS.into_iter().any(|beginning| {
            let rest = words.strip_prefix(beginning);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })
    })
}

/// Returns the words of a line that is part of a documentation comment.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim();
    let words = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
    if words.starts_with('/') { None } else { Some(words.trim_start()) }
}

#[test]
fn only_the_first_words_of_documentation_count() {
    let begun = |text| badly_begun(text).map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(begun("//! What a flow holds.\n\n/// Of a flow.\nfn a() {}"), [1, 3]);
    assert_eq!(begun("    /// Those of a path.\n    ///\n    /// What else.\n"), [1]);
    assert_eq!(begun("/// That of a path.\nconst A: u8 = 0;\n/// What\nconst B: u8 = 0;"), [1, 3]);
    assert!(begun("/// That a flow is tuned is said.\n/// What else is said, too.").is_empty());
    assert!(begun("/// Often.\n\n/// Whatever.\n\n// What is no documentation.").is_empty());
    assert!(begun("//// What is no documentation, either.").is_empty());
}
