//! Text in columns, each as wide as its widest cell.

use std::fmt::{self, Display, Write as _};

/// Writes a heading and the rows under it.
pub fn write(
    f: &mut fmt::Formatter<'_>,
    head: &[&str],
    rows: &[impl AsRef<[String]>],
) -> fmt::Result {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row.as_ref()[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    write_row(f, head, &widths)?;
    rows.iter().try_for_each(|row| write_row(f, row.as_ref(), &widths))
}

fn write_row(f: &mut fmt::Formatter<'_>, cells: &[impl Display], widths: &[usize]) -> fmt::Result {
    let cells = cells.iter().zip(widths).map(|(cell, &width)| format!("{cell:width$}"));
    writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
}

/// Writes `title: item, item` in lines of at most [`WIDTH`] columns, where an
/// item does not need more by itself.
pub fn write_list(f: &mut fmt::Formatter<'_>, title: &str, items: &[String]) -> fmt::Result {
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
