//! A row of the table of a path's fields: all that is known of one.

use std::ops::RangeInclusive;

use toml::de::DeValue;
use wad_common::policy::Policy;

use super::{
    PathPolicy,
    fault::{Fault, Problems, quoted},
    setting::{InForce, Setting},
    table::{self, Located, Table},
};

/// A field that a path may have.
pub struct Field {
    pub key: &'static str,
    /// An alias is another name for the same: that of the Net100 papers.
    pub alias: Option<&'static str>,
    pub kind: Kind,
    /// Words that it takes in place of a value of its kind.
    pub or: &'static [&'static str],
    /// The default: what holds where it is left out.
    pub default: &'static str,
    /// A sentence for the documentation.
    pub doc: &'static str,
    /// Takes the value out of the file. Nothing where a module has to read it, together
    /// with other fields.
    pub(super) read: Read,
    /// Hands the value to the kernel side.
    pub put: fn(&PathPolicy, &mut Policy),
    /// How `wad check` shows it.
    pub check: Option<Checked>,
    /// How `wad explain` shows it.
    pub explain: Option<Setting>,
    /// A sentence that `wad explain` adds.
    pub why: fn(InForce<'_>) -> Option<&'static str>,
    /// How `wad paths` shows it.
    pub paths: Option<Setting>,
}

/// Takes a field out of a table, into the policy.
type Read = fn(&Field, &Table<'_>, &mut Problems, &mut PathPolicy);

/// A kind is what a field takes.
pub enum Kind {
    /// A whole number; the unit is what it counts.
    Whole {
        range: RangeInclusive<u64>,
        unit: &'static str,
    },
    /// A number, with or without a fraction.
    Number {
        range: RangeInclusive<f64>,
        unit: &'static str,
    },
    /// Bytes, with or without a unit.
    Size {
        range: RangeInclusive<u64>,
    },
    /// A window: segments, or bytes with a unit.
    Window {
        segments: RangeInclusive<u64>,
        bytes: RangeInclusive<u64>,
    },
    Switch,
    /// `true` or `false`, for which the papers have 1 and 0.
    PapersSwitch,
    /// A word, out of some. `unless` is said of any other.
    Word {
        words: &'static [&'static str],
        unless: &'static str,
    },
    /// Anything else, which is described by itself.
    Other {
        takes: &'static str,
        range: &'static str,
    },
}

/// Says how `wad check` shows a field, where the file has it.
#[derive(Clone, Copy)]
pub struct Checked {
    /// The heading of a column that it has to itself; None among the words of the path.
    pub title: Option<&'static str>,
    /// The key of the field behind which it is shown; None for its place in the table.
    pub after: Option<&'static str>,
    pub text: fn(&PathPolicy) -> Option<String>,
}

impl Checked {
    pub const fn words(text: fn(&PathPolicy) -> Option<String>) -> Self {
        Self { title: None, after: None, text }
    }

    pub const fn column(title: &'static str, text: fn(&PathPolicy) -> Option<String>) -> Self {
        Self { title: Some(title), after: None, text }
    }

    pub const fn after(self, key: &'static str) -> Self {
        Self { after: Some(key), ..self }
    }
}

/// A whole number that may be left to what is measured.
#[derive(Clone, Copy)]
pub(super) enum Whole {
    /// It is not there, or no number.
    Absent,
    Auto,
    Number(u32),
}

impl Field {
    /// The base of a field: what most fields have nothing of.
    pub const NONE: Self = Self {
        key: "",
        alias: None,
        kind: Kind::Switch,
        or: &[],
        default: "as it is",
        doc: "",
        read: |_, _, _, _| {},
        put: |_, _| {},
        check: None,
        explain: None,
        why: |_| None,
        paths: None,
    };

    /// Reads the field's whole number, if it is there and within the range.
    pub(super) fn whole(&self, table: &Table<'_>, problems: &mut Problems) -> Option<u32> {
        let Kind::Whole { range, unit } = &self.kind else { return None };
        let parse = |value: &DeValue<'_>| table::integer(value, range.clone(), unit);
        u32::try_from(table.read(self.key, problems, parse)?.value).ok()
    }

    /// Reads the same where it may be "auto".
    pub(super) fn whole_or_auto(&self, table: &Table<'_>, problems: &mut Problems) -> Whole {
        let Kind::Whole { range, unit } = &self.kind else { return Whole::Absent };
        let parse = |value: &DeValue<'_>| match value.as_str() {
            Some("auto") => Ok(Whole::Auto),
            Some(_) => Err(table::wrong_type(value, "a whole number, or \"auto\"")),
            // In range, hence whole.
            None => table::integer(value, range.clone(), unit).map(|n| Whole::Number(n as u32)),
        };
        table.read(self.key, problems, parse).map_or(Whole::Absent, |whole| whole.value)
    }

    /// Whether it is there and `true`, or there and `false`.
    pub(super) fn switch(&self, table: &Table<'_>, problems: &mut Problems) -> Option<bool> {
        let parse = |value: &DeValue<'_>| match (&self.kind, value) {
            (Kind::PapersSwitch, DeValue::Integer(_)) => Ok(table::integer(value, 0..=1, "")? == 1),
            _ => table::boolean(value),
        };
        Some(table.read(self.key, problems, parse)?.value)
    }

    /// The one of its words that is there.
    pub(super) fn word(
        &self,
        table: &Table<'_>,
        problems: &mut Problems,
    ) -> Option<Located<&'static str>> {
        let Kind::Word { words, unless } = self.kind else { return None };
        let parse = |value: &DeValue<'_>| {
            let text = table::text(value)?;
            words.iter().copied().find(|word| *word == text).ok_or_else(|| {
                let label = format!("it takes {}", alternatives(words));
                Fault::new(format!("{} {unless}", quoted(text)), label)
            })
        };
        table.read(self.key, problems, parse)
    }

    /// Returns what it takes, for the documentation.
    pub fn type_words(&self) -> String {
        let own = match &self.kind {
            Kind::Whole { .. } => "a whole number",
            Kind::Number { .. } => "a number",
            Kind::Size { .. } => "bytes, or a size such as \"4MiB\"",
            Kind::Window { .. } => "segments, or a size such as \"6MiB\"",
            Kind::Switch => "true or false",
            Kind::PapersSwitch => "true or false, or 1 or 0",
            Kind::Word { words, .. } => return alternatives(words),
            Kind::Other { takes, .. } => takes,
        };
        match self.or {
            [] => own.to_owned(),
            words => format!("{own}, or {}", alternatives(words)),
        }
    }

    /// The values that it takes, for the documentation; empty where the type says it.
    pub fn range_words(&self) -> String {
        match &self.kind {
            Kind::Whole { range, unit } => {
                format!("{} to {} {unit}", range.start(), range.end()).trim_end().to_owned()
            }
            Kind::Number { range, unit } => {
                format!("{} to {} {unit}", range.start(), range.end()).trim_end().to_owned()
            }
            Kind::Size { range } => format!("{} to {} bytes", range.start(), range.end()),
            Kind::Window { segments, bytes } => format!(
                "{} to {} segments, {} to {} bytes",
                segments.start(),
                segments.end(),
                bytes.start(),
                bytes.end()
            ),
            Kind::Switch | Kind::PapersSwitch | Kind::Word { .. } => String::new(),
            Kind::Other { range, .. } => (*range).to_owned(),
        }
    }
}

/// `"a", "b" or "c"`.
fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
