//! Advice says what would help: lines for the policy of the path, here or at the
//! other end, or that nothing here can.

use schemars::JsonSchema;
use serde::Serialize;
use wad_instruments::name;
use wad_policy::{config::MAX_BUFFER_BYTES, law::Law};

use super::{
    course::Course,
    limit::Limit,
    sender::{MAX_WINDOW, rtt_seconds},
};

/// A buffer that limits a flow hides what the path carries: it grows by this factor,
/// after which one looks again.
pub const BUFFER_GROWTH: f64 = 4.0;
/// A smaller buffer is not worth a line.
const LEAST_BUFFER_BYTES: u64 = 64 << 10;
/// A window that is stuck is some kB, and the buffer at least so many times it: half of a
/// buffer is payload where the kernel knows no better.
const STUCK_WINDOW: f64 = 16_384.0;
const STUCK_PART: f64 = 8.0;
/// By then a window has grown, if it does.
const GROWN_SECONDS: f64 = 5.0;
/// Without window scaling (RFC 7323) no window is larger.
const UNSCALED_WINDOW: f64 = 65_535.0;
/// Up to this window a standard flow recovers soon enough (RFC 3649, section 5).
const STANDARD_SEGMENTS: f64 = 38.0;
/// The window is what the configuration takes at most, and where flows that are short
/// gain most.
const INITIAL_WINDOW_SEGMENTS: u32 = 45;

/// The place says whose policy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    Here,
    OtherEnd,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    pub place: Place,
    /// Lines for the path's `[[path]]`; empty where no policy helps.
    pub lines: Vec<String>,
    /// Sentences.
    pub notes: Vec<String>,
}

impl Advice {
    fn here(lines: Vec<String>, note: &str) -> Self {
        Self { place: Place::Here, lines, notes: vec![note.to_owned()] }
    }

    fn nothing(note: &str) -> Self {
        Self::here(Vec::new(), note)
    }
}

#[must_use]
pub fn advise(limit: Limit, course: &Course<'_>) -> Advice {
    match limit {
        Limit::PeerWindow => peer_window(course),
        Limit::OwnWindow => own_window(course),
        Limit::SendBuffer => Advice::here(
            buffer("sndbuf", sent_in_a_round_trip(course)),
            "where the application sets SO_SNDBUF itself, `override_setsockopt = true` as well",
        ),
        Limit::SendingApplication => {
            Advice::nothing("nothing here can: TCP sends as soon as the application writes")
        }
        Limit::ReceivingApplication => {
            Advice::nothing("nothing in TCP can: the application that receives has to read faster")
        }
        Limit::PathRate => Advice::nothing(
            "nothing here can: the path carries no more for this flow; whether that is all of \
             it, or a share among others, cannot be seen from here",
        ),
        Limit::Loss => loss(course),
        Limit::Pacing => Advice::here(
            vec!["pacing = \"auto\"".to_owned()],
            "or a higher rate, where the path has room; an application may have set \
             SO_MAX_PACING_RATE by itself",
        ),
        Limit::SlowStart => Advice::here(
            vec![
                format!("initial_window = {INITIAL_WINDOW_SEGMENTS}"),
                "allow = \"aggressive\"".to_owned(),
            ],
            "slow start ends by itself; this makes it shorter for new connections, where all who \
             share the path agree",
        ),
        Limit::WindowGrowth => growth(course),
        Limit::WindowCap => Advice::nothing(
            "a `max_cwnd` of its path, `dedicated`, or a clamp that the application has set holds \
             it: without, it would grow",
        ),
        Limit::OtherEnd => {
            Advice::nothing("ask at the other end: `wad diagnose` there sees what limits a sender")
        }
        Limit::Idle => Advice::nothing("nothing to improve as long as nobody sends"),
        Limit::Unknown => Advice::nothing("watch it, for longer: --seconds 10"),
    }
}

fn own_window(course: &Course<'_>) -> Advice {
    if is_stuck(course) {
        return Advice::nothing(
            "the buffer has room for many times this window, and nothing waits in it: a larger one \
             does not help. Linux from 6.17 on can get stuck so, by a fault of its own, which an \
             update may mend; else the application has set TCP_WINDOW_CLAMP",
        );
    }
    Advice::here(
        buffer("rcvbuf", course.mean(name::CUR_RWIN_SENT)),
        "a receive window never gets larger than the window scale of the handshake allows: only a \
         new connection has all of it",
    )
}

/// Whether the kernel offers next to nothing of a buffer that is empty.
fn is_stuck(course: &Course<'_>) -> bool {
    let [window, buffer, unread, elapsed] =
        [name::CUR_RWIN_SENT, name::RCV_BUF, name::CUR_APP_R_QUEUE, name::ELAPSED_SECS]
            .map(|name| course.mean(name));
    // The window of a new connection grows with what comes.
    window.zip(buffer).is_some_and(|(window, buffer)| {
        window <= STUCK_WINDOW
            && buffer >= STUCK_PART * window
            && unread.is_some_and(|unread| unread <= window)
            && elapsed.is_some_and(|seconds| seconds >= GROWN_SECONDS)
    })
}

fn peer_window(course: &Course<'_>) -> Advice {
    let mut advice = Advice {
        place: Place::OtherEnd,
        lines: buffer("rcvbuf", sent_in_a_round_trip(course)),
        notes: vec![
            "the window is the other end's to offer: by `wad` there, on a path with this host as \
             `remote`, or by SO_RCVBUF or tcp_rmem; for new connections, because of the window \
             scale"
                .to_owned(),
        ],
    };
    if course.most(MAX_WINDOW).is_some_and(|window| window <= UNSCALED_WINDOW) {
        advice.notes.push(
            "it was never more than 64 KiB: window scaling may be off there, or taken out on the \
             way"
            .to_owned(),
        );
    }
    advice
}

/// Rate times RTT, or what is on its way where that is more.
fn sent_in_a_round_trip(course: &Course<'_>) -> Option<f64> {
    let product = course.rate(name::HC_THRU_OCTETS_ACKED).zip(rtt_seconds(course));
    let product = product.map(|(rate, rtt)| rate * rtt);
    [product, course.mean(name::CUR_RETX_QUEUE)].into_iter().flatten().reduce(f64::max)
}

/// A line for a buffer that is to hold more than this.
fn buffer(key: &str, held: Option<f64>) -> Vec<String> {
    let Some(held) = held else { return Vec::new() };
    // Saturates; the kernel takes no more than this.
    let most = MAX_BUFFER_BYTES;
    let wanted = ((held * BUFFER_GROWTH) as u64).clamp(LEAST_BUFFER_BYTES, most);
    let size = match wanted.next_power_of_two().min(most) {
        size if size.is_multiple_of(1 << 20) => format!("{}MiB", size >> 20),
        size => format!("{}KiB", size >> 10),
    };
    vec![format!("{key} = \"{size}\"")]
}

fn loss(course: &Course<'_>) -> Advice {
    if Law::of_algorithm(&course.flow().congestion) == Some(Law::Leaky) {
        return Advice::nothing(
            "nothing here can: it takes losses without a queue for leaks already; the path has to \
             lose less",
        );
    }
    Advice::here(
        vec!["loss = \"leaky\"".to_owned(), "allow = \"aggressive\"".to_owned()],
        "in the place of `congestion`, where packets are lost without congestion, as on radio links \
         or dirty optics, and all who share the path agree; a policer, or a very short queue, looks \
         the same, and others there would get less",
    )
}

fn growth(course: &Course<'_>) -> Advice {
    let is_standard = ["cubic", "reno", Law::Cubic.name(), Law::Aimd.name()]
        .iter()
        .any(|name| course.flow().congestion.starts_with(name));
    let segments =
        course.last(name::CUR_CWND).zip(course.last(name::CUR_MSS)).map(|(cwnd, mss)| cwnd / mss);
    if !is_standard || segments.is_none_or(|segments| segments <= STANDARD_SEGMENTS) {
        return Advice::nothing(
            "nothing here can: it grows as fast as its congestion control has it",
        );
    }
    Advice::here(
        vec![
            format!("congestion = \"{}\"", Law::Cubic.name()),
            "equivalent_streams = 2".to_owned(),
            "allow = \"aggressive\"".to_owned(),
        ],
        "grows as two CUBIC connections do, where all who share the path agree; `wad plan` says how \
         many it takes to fill a path",
    )
}
