//! Diagnoses for people: a few in full, many as a table.

use std::fmt::{self, Display};

use wad_toolbox::{amounts::Rate, text_table::TextTable};

use super::{Diagnosis, advice::Place, finding::Direction, sender::percent};

/// This many diagnoses are shown in full.
pub const MOST_IN_FULL: usize = 2;
/// Rows of a table before the rest is only counted: with titles and hint a terminal
/// of 24 lines.
const MOST_ROWS: usize = 20;

pub struct Page<'a>(pub &'a [Diagnosis]);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() > MOST_IN_FULL {
            return table(self.0, f);
        }
        for (index, diagnosis) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            in_full(diagnosis, f)?;
        }
        Ok(())
    }
}

fn in_full(diagnosis: &Diagnosis, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Diagnosis { path, local, remote, congestion, cookie, .. } = diagnosis;
    let Diagnosis { owner, finding, advice, mtu, .. } = diagnosis;
    let arrow = match finding.direction {
        Direction::Sending => "sends to",
        Direction::Receiving => "receives from",
    };
    let path = path.escape_debug().to_string();
    let on = if path.is_empty() { "no path".to_owned() } else { format!("path {path}") };
    writeln!(f, "{local} {arrow} {remote}, {on}, {congestion}, cookie {cookie}")?;
    if owner.uid.is_some() {
        writeln!(f, "of {owner}")?;
    }
    write!(f, "limited by {}", finding.limit.words())?;
    match finding.share {
        Some(share) => writeln!(f, ", {} of the time", percent(share))?,
        None => writeln!(f)?,
    }
    if let Some(shares) = &finding.shares {
        writeln!(
            f,
            "  it waits for: the peer's window {}, the send buffer {}, the application {}, the \
             congestion window {}",
            percent(shares.peer_window),
            percent(shares.send_buffer),
            percent(shares.application),
            percent(shares.congestion_window)
        )?;
    }
    for evidence in finding.evidence.iter().chain(mtu) {
        writeln!(f, "- {evidence}")?;
    }
    if let Some(other_end) = &diagnosis.other_end {
        other_end.words().try_for_each(|words| writeln!(f, "- {words}"))?;
    }
    if !advice.lines.is_empty() {
        match advice.place {
            Place::Here if path.is_empty() => {
                let there = remote.ip();
                writeln!(f, "what would help, in a path with remote = \"{there}\":")?;
            }
            Place::Here => writeln!(f, "what would help, in the policy of path {path}:")?,
            Place::OtherEnd => {
                let here = local.ip();
                writeln!(f, "what would help, in a path with remote = \"{here}\" at {remote}:")?;
            }
        }
    }
    advice.lines.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
    advice.notes.iter().try_for_each(|note| writeln!(f, "- {note}"))
}

fn table(diagnoses: &[Diagnosis], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const TITLES: [&str; 6] = ["LIMITED BY", "OF THE TIME", "RATE", "PATH", "REMOTE", "COOKIE"];
    let rows = diagnoses.iter().take(MOST_ROWS).map(row);
    TextTable::new(TITLES).with_rows(rows).fmt(f)?;
    let more = diagnoses.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        write!(f, "and {more} more, less urgent; --json has them all. ")?;
    }
    writeln!(f, "`wad diagnose COOKIE` shows one in full, and what would help")
}

fn row(diagnosis: &Diagnosis) -> [String; 6] {
    let none = || "-".to_owned();
    [
        diagnosis.finding.limit.words().to_owned(),
        diagnosis.finding.share.map_or_else(none, percent),
        diagnosis.bits_per_second.map_or_else(none, |rate| Rate(rate).to_string()),
        diagnosis.path.escape_debug().to_string(),
        diagnosis.remote.to_string(),
        diagnosis.cookie.to_string(),
    ]
}
