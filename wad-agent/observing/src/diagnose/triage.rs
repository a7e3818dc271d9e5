//! Goes from the course of a flow to what limits it, as Web100's triage and NDT's
//! report do it from the same timers: receiver, sender, or network.

use wad_instruments::name;

use super::{
    course::Course,
    finding::{Direction, Finding, Shares},
    limit::Limit,
    receiver, sender,
};

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

/// Returns the direction in which more data go or, if none do, wait.
fn direction(course: &Course<'_>) -> Option<Direction> {
    let grown = |counter| course.grown(counter).unwrap_or(0.0);
    let last = |gauge| course.last(gauge).unwrap_or(0.0);
    let moved = (grown(name::HC_THRU_OCTETS_ACKED), grown(name::HC_THRU_OCTETS_RECEIVED));
    let waiting =
        (last(name::CUR_RETX_QUEUE) + last(name::CUR_APP_W_QUEUE), last(name::CUR_APP_R_QUEUE));
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
