//! A file in pieces that are parsed one by one.
//!
//! A parsed TOML document takes twenty times the memory of its text: 450 MB for
//! 100,000 paths. So a large file is cut before `[[path]]` lines. What the cut
//! could do wrong is to split a string of several lines that has such a line in
//! it, which no key takes; the pieces then have a syntax error.

use super::{
    fault::{Fault, Problem, Span},
    texts::Texts,
};

/// Smaller files are not cut.
const SECTION_BYTES: usize = 64 << 10;
/// Longest stretch without a `[[path]]` line: 50,000 prefixes for one path.
const MAX_SECTION_BYTES: usize = 1 << 20;

const HEADER: &str = "\n[[path]]";

/// A piece of the text, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    pub base_bytes: usize,
    pub text: &'a str,
}

/// The pieces of all texts, one after the other; none has parts of two.
pub fn sections(texts: &Texts) -> impl Iterator<Item = Result<Section<'_>, Problem>> {
    texts.parts().flat_map(|(begin, text)| sections_of(begin, &text.text))
}

/// The pieces of a text that begins there; ends after an error.
fn sections_of(begin: usize, text: &str) -> impl Iterator<Item = Result<Section<'_>, Problem>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        if rest.is_empty() {
            return None;
        }
        let length = section_length(rest);
        let section = Section { base_bytes: begin + at, text: &rest[..length] };
        at += length;
        if length <= MAX_SECTION_BYTES {
            return Some(Ok(section));
        }
        at = text.len();
        Some(Err(too_long(section)))
    })
}

fn section_length(text: &str) -> usize {
    if text.len() <= SECTION_BYTES {
        return text.len();
    }
    let from = text.floor_char_boundary(SECTION_BYTES);
    text[from..].find(HEADER).map_or(text.len(), |at| from + at + 1)
}

fn too_long(section: Section<'_>) -> Problem {
    let first_line = section.text.find('\n').unwrap_or(section.text.len());
    Fault::new(
        format!("no [[path]] line within {} MiB", MAX_SECTION_BYTES >> 20),
        "from here on",
    )
    .help("begin each path with a line [[path]], not indented; split one that has too many prefixes")
    .at(Span::new(section.base_bytes, 0..first_line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        sections_of(0, text).map(|section| section.expect("short sections").text).collect()
    }

    #[test]
    fn a_small_file_is_one_section() {
        let text = "[log]\n[[path]]\nname = \"a\"\n[[path]]\n";
        assert_eq!(texts(text), [text]);
        assert_eq!(texts(""), [""; 0]);
    }

    #[test]
    fn a_large_file_is_cut_before_paths_and_nothing_is_lost() {
        let text = "[[path]]\nname = \"a\" # \u{e9}\u{e9}\n".repeat(10_000);
        let parts = texts(&text);
        assert!(parts.len() > 2);
        assert!(parts.iter().all(|part| part.starts_with("[[path]]\n")));
        assert_eq!(parts.concat(), text);
    }

    #[test]
    fn a_long_stretch_without_a_path_ends_the_file() {
        let text = format!("[[path]]\n{}", "#\n".repeat(MAX_SECTION_BYTES));
        let found: Vec<_> = sections_of(0, &text).collect();
        assert!(matches!(found[..], [Err(_)]));
    }
}
