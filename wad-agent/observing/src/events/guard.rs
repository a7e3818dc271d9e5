//! Makes records of what guards do.

use jiff::Timestamp;
use serde::Serialize;
use wad_evidence::guard::{Change, State};
use wad_policy::event_name::EventName;

use super::record::Record;

/// The values of a record.
#[derive(Debug, Serialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum Values {
    /// The policy hurts.
    Tripped {
        signal: String,
        ratio: f64,
        margin: f64,
        ticks: u64,
        dry_run: bool,
    },
    /// All flows are at the defaults, for so long.
    HeldBack {
        seconds: f64,
    },
    Trial,
    Returned,
}

/// Returns the record of a change; None of one that is none for anybody.
#[must_use]
pub fn record(
    path: &str,
    change: Change,
    dry_run: bool,
    time: Timestamp,
) -> Option<Record<'_, Values>> {
    let values = match (change.harm, change.from, change.to) {
        (Some(harm), ..) => Values::Tripped {
            signal: harm.signal.to_string(),
            ratio: rounded(harm.ratio),
            margin: harm.margin,
            ticks: harm.ticks,
            dry_run,
        },
        (None, _, State::HoldOff { left }) => Values::HeldBack { seconds: left.as_secs_f64() },
        (None, _, State::Trial { .. }) => Values::Trial,
        (None, State::Trial { .. } | State::HoldOff { .. } | State::Tripped, _) => Values::Returned,
        (None, State::Watching { .. } | State::InForce { .. }, _) => return None,
    };
    let (ends, cookie) = (None, None);
    Some(Record { time, event: EventName::Guard, ends, cookie, path, values })
}

/// Three digits behind the point are enough.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wad_evidence::guard::{SIGNALS, Shown};

    use super::*;
    use crate::events::record::testing::teller;

    /// The reference in the book is made of these lines.
    #[test]
    fn lines_are_as_the_reference_has_them() {
        let harm = Shown {
            signal: SIGNALS[0].signal,
            ratio: 9.812_34,
            margin: 3.0,
            ticks: 31,
            part_of_bound: 1.02,
        };
        let hold_off = State::HoldOff { left: Duration::from_secs(300) };
        let changes = [
            (State::WATCHING, State::IN_FORCE, None),
            (State::IN_FORCE, State::Tripped, Some(harm)),
            (State::Tripped, hold_off, None),
            (hold_off, State::TRIAL, None),
            (State::TRIAL, State::IN_FORCE, None),
        ];
        let records = changes.into_iter().filter_map(|(from, to, harm)| {
            record("bob", Change { from, to, harm }, false, Timestamp::UNIX_EPOCH)
        });
        let lines = records.map(|record| record.line(&teller(), 0).unwrap());
        let lines = lines.map(|line| String::from_utf8(line).unwrap()).collect::<String>();
        let golden = include_str!("testdata/lines.jsonl");
        let own = |line: &&str| line.contains("\"event\":\"guard\"");
        let expected: Vec<_> = golden.lines().filter(own).collect();
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected, "{lines}");
    }
}
