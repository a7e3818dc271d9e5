//! From the course of a flow to what limits it, as Web100's triage and NDT's report
//! do it from the same timers: receiver, sender, or network.

use serde::Serialize;

use super::{
    course::Course,
    limit::Limit,
    receiver,
    sender::{self, Shares},
};

/// Who sends the data that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// This end does.
    Sending,
    /// The other end does.
    Receiving,
}

/// What limits a flow, and how that is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub direction: Direction,
    pub limit: Limit,
    /// Part of the time that it is so, where the kernel counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Of this end as a sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Sentences.
    pub evidence: Vec<String>,
}

/// Never panics, whatever the numbers are.
#[must_use]
pub fn triage(course: &Course<'_>) -> Finding {
    match direction(course) {
        Some(Direction::Sending) => sender::triage(course),
        Some(Direction::Receiving) => receiver::triage(course),
        None => Finding {
            direction: Direction::Sending,
            limit: Limit::Idle,
            share: None,
            shares: Shares::of(course),
            evidence: vec!["no data in either direction, and none that wait".to_owned()],
        },
    }
}

/// That in which more data go or, if none do, wait.
fn direction(course: &Course<'_>) -> Option<Direction> {
    let grown = |counter| course.grown(counter).unwrap_or(0.0);
    let last = |gauge| course.last(gauge).unwrap_or(0.0);
    let moved = (grown("HCThruOctetsAcked"), grown("HCThruOctetsReceived"));
    let waiting = (last("CurRetxQueue") + last("CurAppWQueue"), last("CurAppRQueue"));
    [moved, waiting].into_iter().find_map(|(out, back)| {
        if out > back {
            Some(Direction::Sending)
        } else if back > 0.0 {
            Some(Direction::Receiving)
        } else {
            None
        }
    })
}
