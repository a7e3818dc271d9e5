//! The page of the configuration's fields.

use wad_policy::config::{Field, LeftOut, REFERENCE_TABLES, ReferenceTable, fields};

use super::{head, row};

const OPENING: &str = "\
# Fields of the configuration

A configuration is a TOML file, `/etc/wad/wad.toml` unless `--config` names another, with
[those beside it](../files.md). It is taken whole or not at all: a key that is not in these tables is an
error, and so is a value out of its range. `[defaults]` takes the fields of a path, but for those that
say which connections it is for, and `allow`.

- A **size** is a whole number of bytes, or text with a unit: `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`.
- A **rate** always has its unit: `bit`, `kbit`, `Mbit`, `Gbit`, `Tbit`, or `kB/s`, `MB/s`, `GB/s`, `TB/s`. `bps`
  is refused, as programs disagree on what it means.
- A **time** has its unit: `ms`, `s`, `min`, `h`, `d`; the RTT of a path `us`, `ms` or `s`.
- A **window** is a number of segments, or a size with its unit.

[The sample](sample.md) has all of them in one file.
";

const TITLES: [&str; 4] = ["Field", "Takes", "Left out", "Meaning"];

pub fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &heading("path", true);
    page += &head(TITLES);
    for field in fields::all() {
        page += &field_row(field);
    }
    for table in REFERENCE_TABLES {
        page += &section(table);
    }
    page
}

fn heading(name: &str, is_array: bool) -> String {
    if is_array {
        format!("\n## `[[{name}]]`\n\nThere may be several of these tables.\n\n")
    } else {
        format!("\n## `[{name}]`\n\n")
    }
}

fn named(key: &str, alias: Option<&str>) -> String {
    match alias {
        Some(alias) => format!("`{key}` (alias `{alias}`)"),
        None => format!("`{key}`"),
    }
}

fn field_row(field: &Field) -> String {
    let (words, range) = (field.type_words(), field.range_words());
    let takes = if range.is_empty() { words } else { format!("{words}: {range}") };
    row([&named(field.key, field.alias), &takes, field.default, field.doc])
}

fn section(table: &ReferenceTable) -> String {
    let mut text = heading(table.name, table.is_array) + &head(TITLES);
    // Each key of these tables has it: a test of theirs says so.
    for (key, doc) in table.keys.iter().filter_map(|key| Some((key, key.doc.as_ref()?))) {
        let left_out = match doc.left_out {
            LeftOut::Refused => "refused".to_owned(),
            LeftOut::Value(value) => format!("`{value}`"),
            LeftOut::Means(words) => words.to_owned(),
        };
        text += &row([&named(key.name, key.alias), &doc.takes.to_string(), &left_out, doc.about]);
    }
    text
}
