//! Finds what limits a flow whose data this end sends.

use wad_instruments::name;
use wad_policy::response::Response;
use wad_toolbox::amounts::{Bytes, Rate, Time};

use super::{
    course::Course,
    finding::{Direction, Finding, Shares},
    limit::Limit,
};

/// Below this part of the largest window that the peer has offered, its window is
/// not small but full: a receiver that reads lets it open again at the latest when
/// half of it is free (tcp_cleanup_rbuf()).
const CLOSED_WINDOW: f64 = 0.25;
/// Up to this part of what is on its way, unsent data are on their way to being sent.
const NOTABLE_PART: f64 = 0.1;
/// From this part of the congestion window on the data on their way fill it: losses
/// and delayed acknowledgements keep it from being full at each moment.
const FILLED_WINDOW: f64 = 0.7;
/// A queue stands where the RTT is longer than the least by this factor...
const QUEUE_FACTOR: f64 = 1.15;
/// ...and by so much: less is the noise of interrupts and timers.
const QUEUE_SECONDS: f64 = 500e-6;
/// An RTT so many times the least one is that of a path with more on it than it holds:
/// a larger window or buffer would only wait there.
const OVERFILLED: f64 = 2.0;
/// A writer is woken when a third of the buffer is free (sk_stream_is_writeable()):
/// one that is full at any moment is so on the mean.
const FULL_BUFFER: f64 = 0.6;
/// From this part of its pacing rate on a flow is limited by it: headers, and the
/// time that a timer needs, take the rest.
const PACED: f64 = 0.85;
/// In so many round trips without a change a congestion window that was free to grow
/// would have grown.
const HELD_RTTS: f64 = 8.0;
/// The kernel measures none that is shorter.
const LEAST_RTT_US: f64 = 1.0;

const UNCOUNTED: &str = "what it waited for is not known: the time was too short, or it was found running \
                         and nobody saw its beginning";

#[must_use]
pub fn triage(course: &Course<'_>) -> Finding {
    let shares = Shares::of(course);
    let (limit, mut evidence) = match shares {
        Some(shares) => limit(course, &shares),
        None => (Limit::Unknown, vec![UNCOUNTED.to_owned()]),
    };
    let share = shares.and_then(|shares| match limit {
        Limit::PeerWindow | Limit::ReceivingApplication => Some(shares.peer_window),
        // What counts as a wait for acknowledgements may be one for more data.
        Limit::SendingApplication => Some(shares.application + shares.congestion_window),
        // So may be that for the send buffer.
        Limit::SendBuffer if shares.send_buffer < shares.congestion_window => {
            Some(shares.send_buffer + shares.congestion_window)
        }
        Limit::SendBuffer => Some(shares.send_buffer),
        Limit::Unknown => None,
        _ => Some(shares.congestion_window),
    });
    evidence.extend(common(course));
    Finding { direction: Direction::Sending, limit, share, shares, evidence }
}

/// Returns the limit by the longest of the waits.
fn limit(course: &Course<'_>, shares: &Shares) -> (Limit, Vec<String>) {
    let Shares { peer_window, send_buffer, application, congestion_window } = *shares;
    let waits = [peer_window, send_buffer, application, congestion_window];
    let longest = waits.into_iter().fold(0.0, f64::max);
    if peer_window >= longest {
        peer(course)
    } else if send_buffer >= longest {
        send_buffer_or_path(course)
    } else if application >= longest {
        (Limit::SendingApplication, Vec::new())
    } else {
        network(course)
    }
}

/// The path, where no larger window or buffer would get more through.
fn overfilled(course: &Course<'_>) -> Option<(Limit, Vec<String>)> {
    if rtt_seconds(course)? < OVERFILLED * min_rtt_seconds(course)? {
        return None;
    }
    Some((Limit::PathRate, vec![path_rate(course)?]))
}

fn send_buffer_or_path(course: &Course<'_>) -> (Limit, Vec<String>) {
    overfilled(course).unwrap_or_else(|| (Limit::SendBuffer, full_buffer(course)))
}

fn peer(course: &Course<'_>) -> (Limit, Vec<String>) {
    let (window, largest) = (course.mean(name::CUR_RWIN_RCVD), course.most(MAX_WINDOW));
    if let (Some(window), Some(largest)) = (window, largest)
        && window < CLOSED_WINDOW * largest
    {
        let evidence = format!(
            "the peer's window is {} of the {} that it has offered: what arrived is not read",
            bytes(window),
            bytes(largest)
        );
        return (Limit::ReceivingApplication, vec![evidence]);
    }
    if let Some(path) = overfilled(course) {
        return path;
    }
    let evidence = window.map(|window| match rtt_seconds(course) {
        Some(rtt) => format!(
            "a window of {} in each {} makes {} at most",
            bytes(window),
            Time(rtt),
            Rate(window * 8.0 / rtt)
        ),
        None => format!("the peer's window is {}", bytes(window)),
    });
    (Limit::PeerWindow, evidence.into_iter().collect())
}

/// Field of `tcp_sock`: the largest window that the peer has offered.
pub const MAX_WINDOW: &str = "max_window";
/// Field of `tcp_sock`: what SO_MAX_PACING_RATE has, bytes per second.
pub const MAX_PACING: &str = "inet_conn.icsk_inet.sk.sk_max_pacing_rate";

/// Field of `tcp_sock`: what the send buffer holds, as the kernel counts it.
pub const QUEUED: &str = "inet_conn.icsk_inet.sk.sk_wmem_queued";

fn full_buffer(course: &Course<'_>) -> Vec<String> {
    let (sent, buffer) = (course.mean(name::CUR_RETX_QUEUE), course.last(name::SND_BUF));
    let evidence = sent.zip(buffer).map(|(sent, buffer)| {
        format!(
            "the application waits to write more: the send buffer, {} as the kernel counts, is \
             full with {} on their way",
            bytes(buffer),
            bytes(sent)
        )
    });
    evidence.into_iter().collect()
}

/// Data wait, and neither end holds them up: the congestion window does, or seems to.
fn network(course: &Course<'_>) -> (Limit, Vec<String>) {
    let none = |counter| course.grown(counter).is_none_or(|grown| grown == 0.0);
    let timeouts = course.last(name::CUR_TIMEOUT_COUNT).unwrap_or(0.0);
    if timeouts > 0.0 && none(name::HC_THRU_OCTETS_ACKED) {
        let evidence = format!("nothing is acknowledged; {timeouts} timeouts in a row");
        return (Limit::Loss, vec![evidence]);
    }
    // The kernel calls it a wait for the congestion window, which has grown to what the
    // buffer lets out.
    if is_buffer_small(course) == Some(true) {
        return send_buffer_or_path(course);
    }
    if course.mean(name::IS_APP_LIMITED).is_some_and(|limited| limited >= 0.5) {
        let evidence = "what the application writes is sent at once, and the window has room";
        return (Limit::SendingApplication, vec![evidence.to_owned()]);
    }
    if let Some(evidence) = pacing(course) {
        return (Limit::Pacing, vec![evidence]);
    }
    if let Some(evidence) = path_rate(course) {
        return (Limit::PathRate, vec![evidence]);
    }
    if let Some(evidence) = loss(course) {
        return (Limit::Loss, evidence);
    }
    if let Some(evidence) = held(course) {
        return (Limit::WindowCap, vec![evidence]);
    }
    let window = course.last(name::CUR_CWND);
    let threshold = course.last(name::CUR_SSTHRESH);
    match (window, threshold) {
        (Some(window), Some(threshold)) if window >= threshold => {
            let evidence = format!(
                "the congestion window, {}, is over the threshold of slow start and grows step \
                 by step",
                bytes(window)
            );
            (Limit::WindowGrowth, vec![evidence])
        }
        (Some(window), _) => {
            let evidence = format!("the congestion window, {}, grows by the RTT", bytes(window));
            (Limit::SlowStart, vec![evidence])
        }
        (None, _) => (Limit::Unknown, Vec::new()),
    }
}

/// Whether the buffer is full, and has no room for a whole congestion window, or for
/// more than what is on its way.
fn is_buffer_small(course: &Course<'_>) -> Option<bool> {
    let (queued, buffer) = (course.mean(QUEUED)?, course.mean(name::SND_BUF)?);
    let (unsent, sent) = (course.mean(name::CUR_APP_W_QUEUE)?, course.mean(name::CUR_RETX_QUEUE)?);
    let is_full = queued > 0.0 && queued >= FULL_BUFFER * buffer;
    let is_small = buffer < course.mean(name::CUR_CWND)? || unsent <= NOTABLE_PART * sent;
    Some(is_full && is_small)
}

/// Tells of a limit by a rate that was set: that of a law follows its window, and is
/// no limit.
fn pacing(course: &Course<'_>) -> Option<String> {
    let most = course.last(MAX_PACING)?;
    let pacing = course.last(name::PACING_RATE)?;
    let sent = course.rate(name::HC_THRU_OCTETS_ACKED)?;
    (pacing >= most && sent >= PACED * most)
        .then(|| format!("{} of the {} that it may send", Rate(sent * 8.0), Rate(most * 8.0)))
}

fn path_rate(course: &Course<'_>) -> Option<String> {
    let (rtt, least) = (rtt_seconds(course)?, min_rtt_seconds(course)?);
    let rate = course.rate(name::HC_THRU_OCTETS_ACKED)?;
    if rtt >= QUEUE_FACTOR * least && rtt - least >= QUEUE_SECONDS {
        return Some(format!(
            "{} come through, and more only wait longer: the RTT is {}, without queue {}",
            Rate(rate * 8.0),
            Time(rtt),
            Time(least)
        ));
    }
    if course.flow().congestion.starts_with("bbr") {
        return Some(format!("BBR has found that the path carries {}", Rate(rate * 8.0)));
    }
    let (sent, window) = (course.mean(name::CUR_RETX_QUEUE)?, course.mean(name::CUR_CWND)?);
    (sent < FILLED_WINDOW * window && course.mean(name::CUR_APP_W_QUEUE)? > 0.0).then(|| {
        format!(
            "data wait in this host, with {} of a congestion window of {} used: its own device, \
             or processor, takes no more than {}",
            bytes(sent),
            bytes(window),
            Rate(rate * 8.0)
        )
    })
}

fn loss(course: &Course<'_>) -> Option<Vec<String>> {
    let lost = course.grown(name::SEGS_RETRANS).filter(|lost| *lost > 0.0)?;
    let mut evidence = Vec::new();
    if let Some(sent) = course.grown(name::DATA_SEGS_OUT).filter(|sent| *sent >= lost) {
        let rate = lost / sent;
        let mut text = format!("{lost} of {sent} segments sent again, {}", percent(rate));
        if let (Some(mss), Some(window)) = (course.last(name::CUR_MSS), course.mean(name::CUR_CWND))
        {
            // RFC 9438, section 5: by the RTT of the path, not by that of a queue.
            let cubic = Response::cubic(min_rtt_seconds(course)).mean_window_segments(rate);
            text += &format!(
                "; at that rate a CUBIC flow's window is {}, this one's {}",
                bytes(cubic * mss),
                bytes(window)
            );
        }
        evidence.push(text);
    } else {
        evidence.push(format!("{lost} segments sent again"));
    }
    evidence.push("no queue stands on the path".to_owned());
    Some(evidence)
}

fn held(course: &Course<'_>) -> Option<String> {
    let (least, most) = (course.least(name::CUR_CWND)?, course.most(name::CUR_CWND)?);
    let rtts = course.seconds()? / rtt_seconds(course)?;
    let is_filled = course.mean(name::CUR_RETX_QUEUE)? >= FILLED_WINDOW * most;
    (least >= most && is_filled && rtts >= HELD_RTTS)
        .then(|| format!("the congestion window is full, and stays at {}", bytes(most)))
}

/// Returns what one wants to know of any flow.
fn common(course: &Course<'_>) -> Vec<String> {
    let mut evidence = Vec::new();
    if let Some(rate) = course.rate(name::HC_THRU_OCTETS_ACKED) {
        evidence.push(format!("{} acknowledged", Rate(rate * 8.0)));
    }
    if let (Some(rtt), Some(least)) = (rtt_seconds(course), min_rtt_seconds(course)) {
        evidence.push(format!("RTT {}, at least {}", Time(rtt), Time(least)));
    }
    if let (Some(window), Some(mss)) = (course.mean(name::CUR_CWND), course.last(name::CUR_MSS))
        && mss >= 1.0
    {
        let segments = window / mss;
        evidence.push(format!("congestion window {}, {segments:.0} segments", bytes(window)));
    }
    evidence
}

/// Mean of the smoothed one; None where there is none.
pub fn rtt_seconds(course: &Course<'_>) -> Option<f64> {
    course.mean(name::SMOOTHED_RTT).filter(|us| *us >= LEAST_RTT_US).map(|us| us / 1e6)
}

pub fn min_rtt_seconds(course: &Course<'_>) -> Option<f64> {
    course.last(name::MIN_RTT).filter(|us| *us >= LEAST_RTT_US).map(|us| us / 1e6)
}

/// Rounded: a mean has fractions.
pub fn bytes(octets: f64) -> Bytes {
    Bytes(octets as u64)
}

pub fn percent(part: f64) -> String {
    match part * 100.0 {
        percent if percent == 0.0 || percent >= 1.0 => format!("{percent:.0}%"),
        percent => format!("{percent:.3}%"),
    }
}
