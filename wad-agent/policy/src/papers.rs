//! The configuration file of the papers' WAD, made into TOML. It has an entry for each
//! path: `[name]`, then lines `key: value`. Sizes are in bytes, windows in segments.
//!
//! This only translates: whether the values can be had is for the configuration to say.
//! Consent is never made up here, as the papers' file has none.

use std::fmt::Write as _;

/// Holds what became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The policy, with a comment for each line that is not in it.
    pub toml: String,
    pub entries: usize,
    /// Lines that are not carried over.
    pub left_out: usize,
}

/// A key of the papers' file, and the field that it has become.
struct Key {
    papers: &'static str,
    field: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// An address of this host; of 0.0.0.0 the configuration knows that it is any.
    Local,
    /// An address of the other end, of which 0.0.0.0 is any.
    Remote,
    /// A port, of which 0 is any.
    Port,
    /// A whole number, of which 0 is taken for no setting.
    Whole,
    /// A number, of which 0 is taken for no setting.
    Number,
    Switch,
    /// Static values or dynamic ones.
    Mode,
}

const fn key(papers: &'static str, field: &'static str, kind: Kind) -> Key {
    Key { papers, field, kind }
}

/// The keys of path "bob", in section 3.3 of "A TCP Tuning Daemon" (SC 2002).
const KEYS: [Key; 13] = [
    key("src_addr", "local", Kind::Local),
    key("src_port", "local_port", Kind::Port),
    key("dst_addr", "remote", Kind::Remote),
    key("dst_port", "remote_port", Kind::Port),
    key("mode", "mode", Kind::Mode),
    key("sndbuf", "sndbuf", Kind::Whole),
    key("rcvbuf", "rcvbuf", Kind::Whole),
    key("wadai", "additive_increase", Kind::Number),
    key("wadmd", "decrease", Kind::Number),
    key("maxssth", "max_ssthresh", Kind::Whole),
    key("divide", "divide", Kind::Switch),
    key("reorder", "reorder", Kind::Whole),
    key("delack", "delayed_ack", Kind::Switch),
];

/// Makes TOML of the text of a file.
pub fn import(text: &str) -> Imported {
    let mut imported = Imported { toml: String::new(), entries: 0, left_out: 0 };
    // The fields that the entry has already.
    let mut given = Vec::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            given.clear();
            imported.begin(name.trim());
        } else if let Some(comment) = line.strip_prefix('#') {
            imported.push(&format!("#{}", printable(comment)));
        } else if !line.is_empty() {
            match setting(line, imported.entries > 0, &mut given) {
                Ok(setting) => imported.push(&setting),
                Err(why) => imported.leave_out(number, line, &why),
            }
        }
    }
    imported
}

impl Imported {
    fn begin(&mut self, name: &str) {
        let gap = if self.toml.is_empty() { "" } else { "\n" };
        self.entries += 1;
        self.push(&format!("{gap}[[path]]\nname = {}", quoted(name)));
    }

    fn leave_out(&mut self, number: usize, line: &str, why: &str) {
        self.left_out += 1;
        self.push(&format!("# line {number} is not carried over: {}: {why}", printable(line)));
    }

    fn push(&mut self, line: &str) {
        self.toml.push_str(line);
        self.toml.push('\n');
    }
}

/// Returns the line of TOML for a line of an entry, or why there is none.
fn setting(line: &str, in_entry: bool, given: &mut Vec<&str>) -> Result<String, String> {
    let (name, value) = line.split_once(':').ok_or("it is not `key: value`")?;
    let name = name.trim_end();
    if !in_entry {
        return Err("it stands before the first [name]".to_owned());
    }
    let Some(Key { field, kind, .. }) = KEYS.iter().find(|key| key.papers == name) else {
        return Err("the papers have no such key".to_owned());
    };
    if given.contains(field) {
        return Err(format!("{name} stands in this entry already"));
    }
    let value = kind.value(value.trim_start())?;
    given.push(*field);
    let remark = match (*field, value.as_str()) {
        ("reorder", _) => "  # under the kernel's own laws it takes [host] routes = true",
        ("delayed_ack", "false") => "  # none at all with [host] routes = true",
        _ => "",
    };
    Ok(format!("{field} = {value}{remark}"))
}

impl Kind {
    /// Returns the value as TOML has it, or why it cannot be carried over.
    fn value(self, text: &str) -> Result<String, String> {
        match self {
            Self::Remote if text == "0.0.0.0" => Ok(quoted("0.0.0.0/0")),
            Self::Local | Self::Remote => Ok(quoted(text)),
            Self::Port => Ok(whole(text)?.to_string()),
            Self::Whole => match whole(text)? {
                0 => Err(NO_SETTING.to_owned()),
                number => Ok(number.to_string()),
            },
            Self::Number => number(text),
            Self::Switch => match text {
                "0" => Ok("false".to_owned()),
                "1" => Ok("true".to_owned()),
                _ => Err("it is neither 0 nor 1".to_owned()),
            },
            // The papers tell of static values and of dynamic ones, and show 1 beside
            // static ones; which number dynamic ones have they do not say.
            Self::Mode if text == "1" => Ok("\"static\"".to_owned()),
            Self::Mode => Err("the papers show mode 1 alone, static values; \
                               mode = \"measured\" follows what is measured"
                .to_owned()),
        }
    }
}

const NO_SETTING: &str = "0 is taken for no setting";

fn whole(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("it is no whole number from 0 to {}", u32::MAX))
}

/// Returns the number with a digit before its point, which TOML wants.
fn number(text: &str) -> Result<String, String> {
    if let Ok(whole) = text.parse::<u32>().map(f64::from)
        && whole > 0.0
    {
        return Ok(whole.to_string());
    }
    match text.parse::<f64>() {
        Ok(0.0) => Err(NO_SETTING.to_owned()),
        Ok(number) if number.is_finite() => Ok(format!("{number:?}")),
        _ => Err("it is no number".to_owned()),
    }
}

/// Returns the text as a string of TOML.
fn quoted(text: &str) -> String {
    let mut toml = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => toml.extend(['\\', character]),
            _ if is_printable(character) => toml.push(character),
            _ => write!(toml, "\\U{:08X}", u32::from(character)).expect("a text takes it"),
        }
    }
    toml.push('"');
    toml
}

/// Returns the text with escapes for what a comment of TOML, or a terminal, must not get.
fn printable(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        if is_printable(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_debug());
        }
    }
    shown
}

/// Returns whether a character is shown as it is; those that turn the direction of text
/// are not.
fn is_printable(character: char) -> bool {
    matches!(character, '"' | '\'' | '\\') || character.escape_debug().len() == 1
}

/// For libFuzzer, see `tests/fuzz`, and the tests here: whatever the file is, TOML comes of it, and each of
/// its lines is there.
#[cfg(any(test, feature = "fuzz"))]
pub fn fuzz(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Imported { toml, entries, left_out } = import(text);
    let parsed = toml::de::DeTable::parse(&toml).expect("TOML");
    let paths = parsed.get_ref().get("path").and_then(|paths| paths.get_ref().as_array());
    assert_eq!(paths.map_or(0, |paths| paths.len()), entries);
    let lines = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count();
    // A name is one more.
    assert_eq!(lines(&toml), lines(text.trim_start_matches('\u{feff}')) + entries);
    assert_eq!(toml.matches("is not carried over: ").count().min(left_out), left_out);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{
        Config, fields,
        testing::{compare, host, root},
    };

    fn imported(name: &str) -> Imported {
        let folder = root().join("tests/import");
        let text = fs::read_to_string(folder.join(name).with_extension("wad")).expect("readable");
        let imported = import(&text);
        compare(&imported.toml, &folder.join(name).with_extension("toml"));
        imported
    }

    #[test]
    fn the_papers_example_is_carried_over_with_all_its_lines() {
        let Imported { toml, entries, left_out } = imported("papers");
        assert_eq!((entries, left_out), (1, 0));
        for field in KEYS.map(|key| key.field) {
            assert!(toml.contains(&format!("\n{field} = ")), "{field}");
        }
        let refused = Config::parse("bob.toml", &toml, &host()).expect_err("no consent");
        assert!(refused.to_string().contains("add allow = \"aggressive\""), "{refused}");
        let config = Config::parse("bob.toml", &(toml + "allow = \"aggressive\"\n"), &host());
        let by_hand = root().join("tests/config/valid/papers.toml");
        let by_hand = fs::read_to_string(by_hand).expect("readable");
        // These two are not in that file.
        let more = "maxssth = 100\nreorder = 9\n";
        let by_hand = Config::parse("papers.toml", &(by_hand + "\n" + more), &host());
        assert_eq!(config.expect("valid"), by_hand.expect("valid"));
    }

    #[test]
    fn each_line_that_is_not_carried_over_says_why() {
        let Imported { toml, entries, left_out } = imported("odd");
        assert_eq!((entries, left_out), (2, 11));
        let said = toml.lines().filter(|line| line.contains(" is not carried over: ")).count();
        assert_eq!(said, left_out);
        assert!(!toml.contains('\u{1b}'), "nothing is for the terminal to obey");
    }

    #[test]
    fn the_papers_keys_are_those_that_the_configuration_knows() {
        for Key { papers, field, .. } in KEYS {
            let known = fields::all().find(|known| known.key == field).expect("a field");
            assert_eq!(known.alias.unwrap_or(known.key), papers);
        }
    }

    #[test]
    fn an_address_that_is_any_stays_so() {
        let toml = import("[all]\nsrc_addr: 0.0.0.0\ndst_addr: 0.0.0.0\n").toml;
        let config = Config::parse("all.toml", &toml, &host()).expect("valid");
        assert_eq!(config.paths[0].remote, ["0.0.0.0/0".parse().expect("a prefix")]);
        assert!(config.paths[0].local.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_file_is_toml_comes_of_it(
            lines in proptest::collection::vec("(\\[|wadai:|wadmd:|dst_addr:|reorder:|#)?\\PC{0,8}[\r\t\u{1b}\u{202e}\"\\\\]?\\]?", 0..20)
        ) {
            fuzz(lines.join("\n").as_bytes());
        }
    }
}
