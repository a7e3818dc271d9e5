//! Finds what limits a flow whose data the other end sends, as far as this end shows
//! it.

use wad_instruments::name;
use wad_toolbox::amounts::{Rate, Time};

use super::{
    course::Course,
    finding::{Direction, Finding},
    limit::Limit,
    sender::{bytes, min_rtt_seconds, rtt_seconds},
};

/// Unread data take this part of the room, or more: the application is behind.
const UNREAD: f64 = 0.5;
/// From this part of the offered window on what arrives in a round trip fills it.
const FILLED_WINDOW: f64 = 0.75;

#[must_use]
pub fn triage(course: &Course<'_>) -> Finding {
    let (limit, evidence) = unread(course)
        .map(|evidence| (Limit::ReceivingApplication, evidence))
        .or_else(|| window(course).map(|evidence| (Limit::OwnWindow, evidence)))
        .unwrap_or_else(|| (Limit::OtherEnd, hidden(course)));
    let rate = course.rate(name::HC_THRU_OCTETS_RECEIVED);
    let rate = rate.map(|rate| format!("{} received", Rate(rate * 8.0)));
    Finding {
        direction: Direction::Receiving,
        limit,
        share: None,
        shares: None,
        evidence: evidence.into_iter().chain(rate).collect(),
    }
}

fn unread(course: &Course<'_>) -> Option<Vec<String>> {
    let (unread, offered) =
        (course.mean(name::CUR_APP_R_QUEUE)?, course.mean(name::CUR_RWIN_SENT)?);
    (unread > 0.0 && unread >= UNREAD * (unread + offered)).then(|| {
        let (unread, offered) = (bytes(unread), bytes(offered));
        vec![format!("{unread} wait to be read here, and leave a window of {offered}")]
    })
}

/// The RTT that a receiver knows may be that of the handshake: a queue since then
/// makes the window look larger than it is.
fn window(course: &Course<'_>) -> Option<Vec<String>> {
    let rate = course.rate(name::HC_THRU_OCTETS_RECEIVED)?;
    let offered = course.mean(name::CUR_RWIN_SENT)?;
    let rtt = rtt_seconds(course).or_else(|| min_rtt_seconds(course))?;
    (rate * rtt >= FILLED_WINDOW * offered).then(|| {
        vec![format!(
            "{} in each {} is what the offered window of {} allows",
            bytes(rate * rtt),
            Time(rtt),
            bytes(offered)
        )]
    })
}

fn hidden(course: &Course<'_>) -> Vec<String> {
    let mut evidence = Vec::new();
    if let Some(offered) = course.mean(name::CUR_RWIN_SENT) {
        evidence.push(format!(
            "data are read as they come, and the window of {} has room",
            bytes(offered)
        ));
    }
    evidence.push(
        "the sender's window, buffer, application and losses cannot be seen from here".to_owned(),
    );
    evidence
}
