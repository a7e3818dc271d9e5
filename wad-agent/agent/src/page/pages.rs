//! Long tables are shown a part at a time.

use std::{
    fmt::{self, Display},
    ops::Range,
};

use maud::{Markup, html};

use super::{query::Query, words::count};

/// The part of a table that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Rows in all.
    pub of: usize,
    /// Rows of one page.
    rows: usize,
    /// The page, from 1 on.
    page: usize,
}

impl Cut {
    /// Returns the part that is asked for; beyond the end, the last one.
    pub fn of(of: usize, rows: usize, query: &Query) -> Self {
        let pages = of.div_ceil(rows).max(1);
        let page = query.number("page").unwrap_or(1).clamp(1, pages);
        Self { of, rows, page }
    }

    /// Returns the places of its rows.
    pub fn range(&self) -> Range<usize> {
        let begin = (self.page - 1) * self.rows;
        begin..self.of.min(begin + self.rows)
    }

    fn pages(&self) -> usize {
        self.of.div_ceil(self.rows).max(1)
    }
}

/// It is written as "1 to 100 of 10 000".
impl Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.range();
        let [first, last, of] = [start + 1, end, self.of].map(|number| count(number as u64));
        match self.of {
            0 => f.write_str("0"),
            _ if self.pages() == 1 => write!(f, "{of}"),
            _ => write!(f, "{first} to {last} of {of}"),
        }
    }
}

/// Links to the other parts, each with what else the address says.
pub fn links(cut: &Cut, link: &impl Display) -> Markup {
    let link = link.to_string();
    let at =
        |page: usize| format!("{link}{}page={page}", if link.contains('?') { '&' } else { '?' });
    let (page, pages) = (cut.page, cut.pages());
    html! {
        @if pages > 1 {
            nav.pages aria-label="Parts of the table" {
                @if page > 1 {
                    a href=(at(1)) { "First" }
                    a href=(at(page - 1)) rel="prev" { "Before" }
                }
                span { "Part " (page) " of " (pages) }
                @if page < pages {
                    a href=(at(page + 1)) rel="next" { "Next" }
                    a href=(at(pages)) { "Last" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(of: usize, page: &str) -> Cut {
        Cut::of(of, 100, &Query::parse(&format!("page={page}")))
    }

    #[test]
    fn parts_are_named() {
        assert_eq!(cut(0, "1").to_string(), "0");
        assert_eq!(cut(100, "7").to_string(), "100");
        assert_eq!(cut(250, "2").to_string(), "101 to 200 of 250");
        assert_eq!(cut(250, "x").range(), 0..100);
        let text = links(&cut(250, "2"), &"/flows?q=a").into_string();
        assert!(text.contains("href=\"/flows?q=a&amp;page=3\""), "{text}");
        assert!(links(&cut(7, "1"), &"/").into_string().is_empty());
    }

    proptest! {
        #[test]
        fn a_part_is_within_the_table(of in 0_usize..100_000, page: usize) {
            let cut = cut(of, &page.to_string());
            prop_assert!(cut.range().start <= cut.range().end && cut.range().end <= of);
            prop_assert_eq!(of == 0, cut.range().is_empty());
        }
    }
}
