//! Lists of words in lines of a width.

use std::fmt::{self, Write as _};

/// Writes `title: item, item` in lines of at most [`WIDTH`] columns, where an
/// item does not need more by itself.
pub fn write(f: &mut fmt::Formatter<'_>, title: &str, items: &[String]) -> fmt::Result {
    let mut line = format!("{title}:");
    for (n, item) in items.iter().enumerate() {
        let comma = if n + 1 < items.len() { "," } else { "" };
        if line.chars().count() + 1 + item.chars().count() + comma.len() > WIDTH {
            writeln!(f, "{line}")?;
            line = " ".repeat(INDENT);
        }
        write!(line, " {item}{comma}")?;
    }
    writeln!(f, "{line}")
}

const WIDTH: usize = 100;
const INDENT: usize = 3;
