//! The TOML examples of the pages are judged here. Each is judged by `wad check`, which
//! must take it, or refuse it where the page says so. The words behind the fence say
//! how it is meant:
//!
//! - `toml`: a whole file;
//! - `toml,path`: lines of one `[[path]]`, completed with its head, a name and a prefix;
//! - `invalid` beside either: it is an example of what is refused.
//!
//! None has lines that the book would hide: pages are read in a forge, too, and their examples
//! are copied from there.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use super::{
    Page,
    markdown::{Block, Parts},
};

/// These lines complete those of a path, by its keys.
const HEAD: [(&str, &str); 2] = [("name", "\"example\""), ("remote", "\"203.0.113.0/24\"")];

/// Has each example judged; says which are not what their pages say.
pub fn check(
    root: &Path,
    pages: &[Page],
    judge: impl Fn(&str) -> Result<Result<(), String>>,
) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for page in pages {
        let blocks = Parts::of(&page.text).blocks;
        for block in blocks.iter().filter(|block| block.words[0] == "toml") {
            let place = format!("{}:{}", page.file.display(), block.line);
            let Some(Kind { is_path, is_invalid }) = Kind::of(block) else {
                let words = block.words.join(",");
                problems.push(format!("{place}: `{words}`: it takes toml, path, invalid"));
                continue;
            };
            let folder = root.join(&page.file);
            let folder = folder.parent().expect("a file is in a folder");
            let text = included(&block.text, folder).with_context(|| place.clone())?;
            let text = if is_path { completed(&text) } else { text };
            match judge(&text)? {
                Ok(()) if is_invalid => {
                    problems.push(format!("{place}: `wad check` takes what is marked invalid"));
                }
                Err(told) if !is_invalid => {
                    problems.push(format!("{place}: `wad check` refuses the example:\n{told}"));
                }
                _ => {}
            }
        }
    }
    Ok(problems)
}

/// Tells how an example is meant.
struct Kind {
    is_path: bool,
    is_invalid: bool,
}

impl Kind {
    fn of(block: &Block) -> Option<Self> {
        let mut kind = Self { is_path: false, is_invalid: false };
        for word in &block.words[1..] {
            match word.as_str() {
                "path" => kind.is_path = true,
                "invalid" => kind.is_invalid = true,
                _ => return None,
            }
        }
        Some(kind)
    }
}

/// Returns the text with the files that mdBook includes, named from the page's folder.
fn included(text: &str, folder: &Path) -> Result<String> {
    let mut whole = String::new();
    for line in text.lines() {
        let name = line.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}"));
        if let Some(name) = name {
            let file = folder.join(name);
            whole += &fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        } else {
            whole += line;
            whole.push('\n');
        }
    }
    Ok(whole)
}

fn completed(lines: &str) -> String {
    let mut head = "[[path]]\n".to_owned();
    for (key, value) in HEAD {
        let is_there = lines.lines().any(|line| {
            line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
        });
        if !is_there {
            head += &format!("{key} = {value}\n");
        }
    }
    head + lines
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Has the examples of a page judged: those with `bad` are refused.
    fn problems(text: &str) -> Vec<String> {
        let page = Page { file: "docs/src/page.md".into(), text: text.to_owned() };
        let judge = |text: &str| {
            Ok(if text.contains("bad") { Err("it is bad".to_owned()) } else { Ok(()) })
        };
        check(Path::new("/"), &[page], judge).unwrap()
    }

    /// Returns what is given to `wad check` of a page's only example.
    fn given(text: &str) -> String {
        let page = Page { file: "page.md".into(), text: text.to_owned() };
        let given = RefCell::new(Vec::new());
        let judge = |text: &str| {
            given.borrow_mut().push(text.to_owned());
            Ok(Ok(()))
        };
        assert_eq!(check(Path::new("/"), &[page], judge).unwrap(), [""; 0]);
        let given = given.into_inner();
        assert_eq!(given.len(), 1);
        given.into_iter().next().unwrap()
    }

    #[test]
    fn a_broken_example_is_a_problem() {
        assert_eq!(problems("```toml\ngood = 1\n```\n"), [""; 0]);
        let told = problems("text\n```toml\nbad = 1\n```\n");
        assert_eq!(told, ["docs/src/page.md:2: `wad check` refuses the example:\nit is bad"]);
    }

    #[test]
    fn an_example_of_what_is_wrong_must_be_wrong() {
        assert_eq!(problems("```toml,invalid\nbad = 1\n```\n"), [""; 0]);
        let told = problems("```toml,path,invalid\ngood = 1\n```\n");
        assert_eq!(told, ["docs/src/page.md:1: `wad check` takes what is marked invalid"]);
    }

    #[test]
    fn only_toml_is_looked_at_and_only_with_known_words() {
        assert_eq!(problems("```sh\nbad\n```\n"), [""; 0]);
        let told = problems("```toml,ignore\nbad = 1\n```\n");
        assert_eq!(told, ["docs/src/page.md:1: `toml,ignore`: it takes toml, path, invalid"]);
    }

    #[test]
    fn lines_of_a_path_are_completed() {
        assert_eq!(
            given("```toml,path\nsndbuf = 1\n```\n"),
            "[[path]]\nname = \"example\"\nremote = \"203.0.113.0/24\"\nsndbuf = 1\n"
        );
        assert_eq!(
            given("```toml,path\nremote_port = 1\nname = \"x\"\n```\n"),
            "[[path]]\nremote = \"203.0.113.0/24\"\nremote_port = 1\nname = \"x\"\n"
        );
    }

    #[test]
    fn a_file_is_included() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "a = 1\n").unwrap();
        let text = included("{{#include a.toml}}\nb = 2\n", folder.path()).unwrap();
        assert_eq!(text, "a = 1\nb = 2\n");
        included("{{#include c.toml}}\n", folder.path()).unwrap_err();
    }
}
