//! Numbers as they stand in tables: with their units, and a dash where there is none.

use maud::{Markup, html};
use wad_toolbox::amounts::{Bytes, Rate, Time};

/// This stands where nothing is known.
pub const NONE: &str = "–";

/// Writes a value, or a dash.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| NONE.to_owned())
}

/// A whole number, with thin spaces between groups of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join("\u{202f}")
}

pub fn octets(octets: f64) -> String {
    // Saturates; nothing is below zero.
    Bytes(octets as u64).to_string()
}

pub fn rate(bits_per_second: f64) -> String {
    Rate(bits_per_second).to_string()
}

pub fn seconds(seconds: f64) -> String {
    Time(seconds).to_string().replace(" us", " µs")
}

pub fn microseconds(us: f64) -> String {
    seconds(us / 1e6)
}

/// A part as a percentage, so that the smallest that matters still shows.
pub fn percent(part: f64) -> String {
    format!("{:.3} %", part * 100.0)
}

/// How long ago it was.
pub fn ago(age_seconds: f64) -> String {
    format!("{} ago", seconds(age_seconds.max(0.0)))
}

/// A table that may be wider than there is room: it is moved by the keys, too. `name` is its own
/// on the page.
pub fn table(name: &str, caption: &str, content: &Markup) -> Markup {
    html! {
        div.scroll id=(name) tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { span { (caption) } }
                (content)
            }
        }
    }
}

/// A fact and its name; None where it is not known, or does not matter.
pub type Fact = (&'static str, Option<String>);

/// Facts, one below the other.
pub fn facts(facts: impl IntoIterator<Item = Fact>) -> Markup {
    list("facts", facts)
}

/// Few facts, beside each other.
pub fn row(facts: impl IntoIterator<Item = Fact>) -> Markup {
    list("facts row", facts)
}

fn list(class: &str, facts: impl IntoIterator<Item = Fact>) -> Markup {
    html! {
        dl class=(class) {
            @for (name, value) in facts {
                @if let Some(value) = value {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

/// Rows of a table of this host before the rest is only counted.
pub const MOST_ROWS: usize = 200;

/// Says how many rows are left out of so many.
pub fn left_out(rows: usize) -> Markup {
    html! {
        @if rows > MOST_ROWS {
            p.soft { "And " (count((rows - MOST_ROWS) as u64)) " more; `wad status --json` has them all." }
        }
    }
}

/// Sentences that somebody should read.
pub fn notes(notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            ul.notes {
                @for note in notes {
                    li { (note) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_groups() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(octets(-1.0), "0 B");
        assert_eq!(microseconds(75_120.0), "75.1 ms");
        assert_eq!(microseconds(42.0), "42 µs");
        assert_eq!(percent(0.000_05), "0.005 %");
    }
}
