//! The parameters of a path's congestion control, read together: what the laws
//! of ours are told.

use std::ops::RangeInclusive;

use wad_common::control::{Control, IGNORE_LOCAL_STALLS, KEEP_WHEN_IDLE, WindowSize};

use super::{
    fault::{Fault, Problems, quoted},
    line::Line,
    table::{self, Table},
    thresholds::{self, Thresholds},
};

/// Packets that a flow of `wad_delay` may keep queued.
const STANDING_QUEUE_SEGMENTS: RangeInclusive<u64> = 2..=10_000;

/// Of a dedicated path's rate: headers take 3.5%, and retransmissions have to
/// find room as well.
const DEDICATED_PAYLOAD: f64 = 0.95;

/// What neither `wad_aimd` nor pacing says.
pub fn read(table: &Table<'_>, thresholds: &Thresholds, problems: &mut Problems) -> Control {
    let standing_queue = table.read("standing_queue", problems, |value| {
        table::integer(value, STANDING_QUEUE_SEGMENTS, "segments")
    });
    Control {
        initial_ssthresh: thresholds.initial_ssthresh,
        max_cwnd: thresholds.max_cwnd,
        max_ssthresh_segments: thresholds.max_ssthresh_segments,
        // In range, hence whole.
        standing_queue_segments: standing_queue.map_or(0, |queue| queue.value as u32),
        flags: read_flags(table, problems),
        ..Control::STANDARD
    }
}

fn read_flags(table: &Table<'_>, problems: &mut Problems) -> u32 {
    let idle = table.read("idle", problems, |value| match table::text(value)? {
        "decay" => Ok(0),
        "keep" => Ok(KEEP_WHEN_IDLE),
        other => {
            let title = format!("{} is nothing to do when idle", quoted(other));
            Err(Fault::new(title, "it takes \"decay\" or \"keep\""))
        }
    });
    let stalls = table.read("ignore_local_stalls", problems, |value| {
        Ok(if table::boolean(value)? { IGNORE_LOCAL_STALLS } else { 0 })
    });
    idle.map_or(0, |idle| idle.value) | stalls.map_or(0, |stalls| stalls.value)
}

/// Of a path of one's own: window and rate.
pub fn dedicated(table: &Table<'_>, line: &Line, problems: &mut Problems) -> Control {
    let Some(rate) = line.dedicated() else { return Control::STANDARD };
    if !table.has("rtt") {
        let fault = Fault::new("`dedicated` needs `rtt`", "their product gives the window");
        problems.push(fault.help("add the path's round trip time, as rtt = \"70ms\"").at(rate.at));
    }
    let Some(bdp_bytes) = line.bdp_bytes() else { return Control::STANDARD };
    let max_cwnd = thresholds::in_bytes(bdp_bytes).unwrap_or_else(|fault| {
        let title = format!("`dedicated` times `rtt` {}", fault.title);
        let help = "check both, or share the path between several flows with a rate for each";
        problems.push(Fault { title, ..fault }.help(help).at(rate.at));
        WindowSize::default()
    });
    Control {
        max_cwnd,
        dedicated_bytes_per_second: (rate.value / 8.0 * DEDICATED_PAYLOAD).round() as u64,
        ..Control::STANDARD
    }
}
