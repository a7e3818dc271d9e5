//! A path of constant RTT is simulated RTT by RTT, and a flow over it is under a
//! loss-based law. Time counts in RTTs, windows in segments.

use std::fmt::Write as _;

use wad_common::law::{Aimd, Window};

/// Tells what the application does.
#[derive(Clone, Copy)]
pub enum Phase {
    /// The application sends as much as the window lets it.
    Bulk { rtts: u64 },
    /// The application has this many segments to send in each RTT.
    Limited { rtts: u64, segments: u32 },
}

/// A flow and what happens to it.
pub struct Scenario {
    /// The first line of the curve, which says what it shows.
    pub title: &'static str,
    /// The law at each window.
    pub law: fn(u32) -> Aimd,
    pub initial_window: u32,
    pub ssthresh: u32,
    pub max_ssthresh: u32,
    /// Segments that the receiver acknowledges at once.
    pub segments_per_ack: u32,
    /// Segments in flight at which one is lost, loss by loss.
    pub losses: &'static [u32],
    pub phases: &'static [Phase],
}

/// Equal RTTs in a row.
#[derive(PartialEq, Eq)]
struct Row {
    in_flight: u32,
    cwnd: u32,
    ssthresh: u32,
    note: &'static str,
}

/// Returns the flow's window over time, as text: RTTs, segments in flight, window and
/// threshold, and the window as a bar.
pub fn curve(scenario: &Scenario) -> String {
    let rows = simulate(scenario);
    let highest = rows.iter().map(|(_, row)| row.cwnd).max().unwrap_or(1);
    let mut text = format!(
        "{}\n\n{:>19}  {:>10} {:>10} {:>10}\n",
        scenario.title, "rtt", "in flight", "cwnd", "ssthresh"
    );
    let mut rtt = 0;
    for (count, row) in rows {
        let last = rtt + count - 1;
        let rtts = if count == 1 { format!("{rtt}") } else { format!("{rtt}-{last}") };
        let ssthresh = match row.ssthresh {
            u32::MAX => "-".to_owned(),
            segments => segments.to_string(),
        };
        let bar = "#".repeat((u64::from(row.cwnd) * 50 / u64::from(highest)) as usize);
        let line = format!(
            "{rtts:>19}  {:>10} {:>10} {ssthresh:>10} {bar} {}",
            row.in_flight, row.cwnd, row.note
        );
        writeln!(text, "{}", line.trim_end()).expect("text takes what is written");
        rtt = last + 1;
    }
    text
}

fn simulate(scenario: &Scenario) -> Vec<(u64, Row)> {
    let mut rows: Vec<(u64, Row)> = Vec::new();
    let mut losses = scenario.losses.iter().copied().peekable();
    let mut recovering = false;
    let mut window = Window {
        cwnd_segments: scenario.initial_window,
        ssthresh_segments: scenario.ssthresh,
        clamp_segments: u32::MAX,
        max_ssthresh_segments: scenario.max_ssthresh,
        credit_q16: 0,
    };
    for phase in scenario.phases {
        let (rtts, available) = match *phase {
            Phase::Bulk { rtts } => (rtts, u32::MAX),
            Phase::Limited { rtts, segments } => (rtts, segments),
        };
        let mut left = rtts;
        while left > 0 {
            let in_flight = available.min(window.cwnd_segments);
            let before = window;
            // A loss is repaired in the RTT after it, in which nothing grows.
            let note = if recovering {
                "recovery"
            } else if losses.next_if(|at| in_flight >= *at).is_some() {
                let law = (scenario.law)(window.cwnd_segments);
                let kept = law.on_congestion(window.cwnd_segments);
                window.ssthresh_segments = kept;
                window.cwnd_segments = kept;
                "loss"
            } else {
                window = acknowledge(scenario, window, in_flight);
                ""
            };
            recovering = note == "loss";

            // Where nothing changed, nothing will in the rest of the phase.
            let rtts = if note.is_empty() && window == before { left } else { 1 };
            left -= rtts;
            let Window { cwnd_segments: cwnd, ssthresh_segments: ssthresh, .. } = before;
            let row = Row { in_flight, cwnd, ssthresh, note };
            match rows.last_mut() {
                Some((count, last)) if *last == row => *count += rtts,
                _ => rows.push((rtts, row)),
            }
        }
    }
    rows
}

/// Takes the ACKs of one RTT, of a flow that may or may not have filled its window.
fn acknowledge(scenario: &Scenario, mut window: Window, in_flight: u32) -> Window {
    let mut left = in_flight;
    while left > 0 {
        // As `tcp_is_cwnd_limited()`: in slow start, half a window fills it.
        let limited = if window.in_slow_start() {
            u64::from(window.cwnd_segments) < 2 * u64::from(in_flight)
        } else {
            window.cwnd_segments <= in_flight || left != in_flight
        };
        if !limited {
            return window;
        }
        let acked = scenario.segments_per_ack.min(left);
        window = (scenario.law)(window.cwnd_segments).on_ack(window, acked);
        left -= acked;
    }
    window
}
