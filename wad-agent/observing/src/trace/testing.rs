//! Flows and traces for tests.

use std::path::Path;

use jiff::{Timestamp, ToSpan as _};
use wad_instruments::{Flow, testing::owner};

use super::{
    columns::Columns,
    read::{Damage, Rows},
    row::{Format, Head, Row, VERSION},
};

pub fn flow<const N: usize>(cookie: u64, values: [(&str, Option<f64>); N]) -> Flow {
    Flow {
        cookie,
        netns: 4_026_531_840,
        path: "to, \"b\"".into(),
        local: ([0xfd81, 0, 0, 0, 0, 0, 0, 1], 40_000 + cookie as u16).into(),
        remote: ([0xfd81, 0, 0, 0, 0, 0, 0, 2], 5001).into(),
        role: "connected".into(),
        outcome: "tuned".into(),
        refused: vec![],
        congestion: "cubic".into(),
        owner: owner(),
        instruments: values.into_iter().collect(),
    }
}

/// A trace of two flows, ten times a second, and its lines: the first is the head.
pub fn lines(format: Format, polls: u32) -> Vec<Vec<u8>> {
    let columns = Columns::new(super::columns::USUAL);
    let head = Head {
        wad_trace: VERSION,
        version: "0.1.0",
        host: "h".to_owned(),
        started: Timestamp::UNIX_EPOCH,
        interval_ms: 100,
        instruments: columns.iter().collect(),
    };
    let mut lines = vec![format.head(&head)];
    for poll in 0..polls {
        let time = Timestamp::UNIX_EPOCH + (i64::from(poll) * 100).milliseconds();
        for cookie in [1, 2] {
            let grown = f64::from(poll) * cookie as f64;
            let flow = flow(
                cookie,
                [
                    ("HCThruOctetsAcked", Some(grown * 125_000.0)),
                    ("SegsRetrans", Some((grown / 7.0).floor())),
                    ("CurCwnd", Some(14_480.0 + grown * 1448.0)),
                    ("CurSsthresh", (poll > 3).then_some(40_000.0)),
                    ("SmoothedRTT", Some(70_000.25 + grown)),
                ],
            );
            lines.push(format.line(&Row::new(time, &flow, &columns)));
        }
    }
    lines
}

/// Returns what can be read of a file, and what is wrong with it.
pub fn rows_of(file: &Path) -> (Vec<Row>, Option<Damage>) {
    let mut rows = Rows::open(file).unwrap();
    let read = rows.by_ref().collect();
    (read, rows.damage().cloned())
}
