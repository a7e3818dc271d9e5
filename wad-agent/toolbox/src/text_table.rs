//! Tables of text: each column as wide as its widest cell, two spaces between two.

use std::fmt::{self, Display};

/// A table. With `{:#}` its titles are bold, for terminals.
pub struct TextTable {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
    words: usize,
}

impl TextTable {
    /// Makes a table without rows, whose columns all hold words.
    #[must_use]
    pub fn new(titles: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let titles = titles.into_iter().map(Into::into).collect();
        Self { titles, rows: Vec::new(), words: usize::MAX }
    }

    /// Has the columns behind the first so many hold figures, which end at the right.
    #[must_use]
    pub fn with_figures_behind(self, words: usize) -> Self {
        Self { words, ..self }
    }

    /// Adds rows: a cell for each column. Where rows have fewer, so has the table.
    #[must_use]
    pub fn with_rows(mut self, rows: impl IntoIterator<Item = impl Into<Vec<String>>>) -> Self {
        self.rows.extend(rows.into_iter().map(Into::into));
        self
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match column < self.words {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

impl Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || [&self.titles].into_iter().chain(&self.rows);
        let columns = all().map(Vec::len).min().unwrap_or(0);
        let width = |column: usize| all().map(|row| row[column].chars().count()).max();
        let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let titles = self.line(&self.titles, &widths);
        if f.alternate() {
            // Bold, and back (ECMA-48).
            writeln!(f, "\x1b[1m{titles}\x1b[0m")?;
        } else {
            writeln!(f, "{titles}")?;
        }
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", self.line(row, &widths)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let rows = [["é", "1"], ["longer", "10"]].map(|row| row.map(str::to_owned));
        TextTable::new(["NAME", "N"]).with_rows(rows)
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(table().to_string(), "NAME    N\né       1\nlonger  10\n");
        let figures = table().with_figures_behind(1);
        assert_eq!(figures.to_string(), "NAME     N\né        1\nlonger  10\n");
        assert_eq!(TextTable::new(["A", "B"]).to_string(), "A  B\n");
    }

    #[test]
    fn titles_are_bold_where_that_is_asked_for() {
        assert_eq!(format!("{:#}", TextTable::new(["A"])), "\x1b[1mA\x1b[0m\n");
    }

    #[test]
    fn columns_that_rows_have_not_are_left_out() {
        let table = TextTable::new(["A", "B", "C"]).with_rows([["1", "2"].map(str::to_owned)]);
        assert_eq!(table.to_string(), "A  B\n1  2\n");
    }
}
