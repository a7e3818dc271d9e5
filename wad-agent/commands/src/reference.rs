//! The reference of the book, made from the tables that the program itself goes by: so
//! it cannot drift. `cargo xtask book` has the pages written by the example `reference`,
//! and holds those of `docs/src/reference` against them.

pub mod commands;
mod events;
mod exit_codes;
mod fields;
mod instruments;
mod laws;
mod metrics;
pub mod schemas;
#[cfg(feature = "share")]
pub mod share;

/// The first line of each page: by it they are known.
const MARK: &str = "<!-- Made from the program's own tables by `cargo xtask book --write`. -->";

/// A page of the reference, in Markdown.
pub struct Page {
    pub file: &'static str,
    pub text: String,
}

/// Makes all pages.
pub fn pages() -> Vec<Page> {
    let page = |file, text: String| Page { file, text: format!("{MARK}\n\n{text}") };
    vec![
        page("fields.md", fields::page()),
        page("laws.md", laws::page()),
        page("commands.md", commands::page()),
        page("metrics.md", metrics::page()),
        page("events.md", events::page()),
        page("instruments.md", instruments::page()),
        page("exit-codes.md", exit_codes::page()),
        page("schemas.md", schemas::page()),
    ]
}

/// A row of a table. A bar in a cell would end it.
fn row<const N: usize>(cells: [&str; N]) -> String {
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    format!("| {} |\n", cells.join(" | "))
}

/// The head of a table.
fn head<const N: usize>(titles: [&str; N]) -> String {
    row(titles) + &row(titles.map(|_| "---"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole() {
        for Page { file, text } in pages() {
            assert!(text.starts_with(MARK), "{file}");
            assert_eq!(text.matches("\n# ").count(), 1, "{file}");
            let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| ")).collect();
            for pair in rows.windows(2) {
                let cells = |row: &str| row.replace("\\|", "").matches('|').count();
                let is_head = |row: &str| row.contains("| --- |");
                let begins = !is_head(pair[0]) && text.contains(&format!("\n\n{}\n", pair[1]));
                assert!(begins || cells(pair[0]) == cells(pair[1]), "{file}: {pair:?}");
            }
        }
    }
}
