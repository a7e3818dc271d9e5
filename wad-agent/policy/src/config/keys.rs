//! A key of a table, and what the reference says of it. The ranges here are those that
//! the file is read with, so that the two cannot differ.

use std::{fmt, ops::RangeInclusive, time::Duration};

/// A key that a table may have.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    /// Another name for the same.
    pub alias: Option<&'static str>,
    /// None where the reference has it from elsewhere.
    pub doc: Option<Doc>,
}

/// What the reference says of a key.
#[derive(Debug)]
pub struct Doc {
    pub takes: Takes,
    pub left_out: LeftOut,
    /// One line, in Markdown.
    pub about: &'static str,
}

/// The values of a key.
#[derive(Debug)]
pub enum Takes {
    /// Text that has to be described, in Markdown.
    Text(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number, and what it counts.
    Integer(RangeInclusive<u64>, &'static str),
    Number,
    /// Bytes, or a size with its unit.
    Size(RangeInclusive<u64>),
    /// A time with its unit.
    Time(RangeInclusive<Duration>),
    Switch,
}

/// What holds where a key is not there.
#[derive(Debug)]
pub enum LeftOut {
    /// The file is refused.
    Refused,
    /// The same as with this value, written as in the file.
    Value(&'static str),
    /// Something that no value stands for, in Markdown.
    Means(&'static str),
}

pub const fn key(name: &'static str) -> Key {
    Key { name, alias: None, doc: None }
}

impl Key {
    /// Makes the key of a path's field, of which the table of fields says the rest.
    pub const fn of_field(name: &'static str, alias: Option<&'static str>) -> Self {
        Self { name, alias, doc: None }
    }

    pub const fn takes(self, takes: Takes, left_out: LeftOut, about: &'static str) -> Self {
        Self { name: self.name, alias: self.alias, doc: Some(Doc { takes, left_out, about }) }
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Words(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                f.write_str(&words.join(", "))
            }
            Self::Integer(range, unit) => write!(f, "{} to {} {unit}", range.start(), range.end()),
            Self::Number => f.write_str("a number"),
            Self::Size(range) => {
                write!(f, "a size, {}", size(*range.start()))?;
                if *range.end() < i64::MAX as u64 {
                    write!(f, " to {}", size(*range.end()))?;
                } else {
                    f.write_str(" or more")?;
                }
                Ok(())
            }
            Self::Time(range) => {
                write!(f, "a time, {} to {}", time(*range.start()), time(*range.end()))
            }
            Self::Switch => f.write_str("`true`, `false`"),
        }
    }
}

/// The size in the largest unit of which it is a whole number.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.iter().find(|(_, bits)| bytes.trailing_zeros() >= *bits);
    match whole {
        Some((unit, bits)) if bytes > 0 => format!("`\"{}{unit}\"`", bytes >> bits),
        _ => format!("{bytes} bytes"),
    }
}

/// The time in the largest unit of which it is a whole number.
fn time(time: Duration) -> String {
    let milliseconds = time.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    let whole = units.iter().find(|(_, length)| milliseconds.is_multiple_of(*length));
    match whole {
        Some((unit, length)) if milliseconds > 0 => {
            format!("`\"{}{unit}\"`", milliseconds / length)
        }
        _ if milliseconds == 0 => "`\"0s\"`".to_owned(),
        _ => format!("`\"{milliseconds}ms\"`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_as_they_are_written() {
        for (bytes, shown) in
            [(4096, "`\"4KiB\"`"), (1 << 36, "`\"64GiB\"`"), (1000, "1000 bytes"), (0, "0 bytes")]
        {
            assert_eq!(size(bytes), shown);
        }
        for (milliseconds, shown) in
            [(0, "0s"), (100, "100ms"), (90_000, "90s"), (300_000, "5min"), (172_800_000, "2d")]
        {
            assert_eq!(time(Duration::from_millis(milliseconds)), format!("`\"{shown}\"`"));
        }
    }

    #[test]
    fn ranges_are_shown_whole() {
        assert_eq!(Takes::Integer(1..=5, "files").to_string(), "1 to 5 files");
        assert_eq!(Takes::Size(1024..=i64::MAX as u64).to_string(), "a size, `\"1KiB\"` or more");
        assert_eq!(Takes::Words(&["a", "b"]).to_string(), "`\"a\"`, `\"b\"`");
    }
}
