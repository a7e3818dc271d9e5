//! What a path gets beyond the columns of the table, for the few that get it.

use wad_common::control::{IGNORE_LOCAL_STALLS, KEEP_WHEN_IDLE, Pacing, WindowSize};
use wad_policy::config::{PathPolicy, UNBOUNDED_PACING_BYTES_PER_SECOND};

/// Each by its key, in the order of the documentation.
pub fn of(path: &PathPolicy) -> Vec<String> {
    let control = &path.control;
    let number = |key: &str, number: u32| (number > 0).then(|| format!("{key} {number}"));
    let flag = |flag: u32, text: &str| (control.flags & flag != 0).then(|| text.to_owned());
    let rate = control.dedicated_bytes_per_second;
    [
        path.autotune_bytes.map(|_| "buffers autotuned by the kernel".to_owned()),
        path.divide.then(|| "buffers divided among its flows".to_owned()),
        path.override_setsockopt.then(|| "override_setsockopt".to_owned()),
        path.observe.then(|| "only observed".to_owned()),
        window("initial_ssthresh", control.initial_ssthresh),
        window("max_cwnd", control.max_cwnd),
        number("max_ssthresh", control.max_ssthresh_segments),
        (rate > 0).then(|| format!("paced at {} of payload", bits_per_second(rate))),
        number("standing_queue", control.standing_queue_segments),
        flag(KEEP_WHEN_IDLE, "idle keep"),
        flag(IGNORE_LOCAL_STALLS, "ignore_local_stalls"),
        pacing(path),
        number("initial_receive_window", path.initial_receive_window_segments.unwrap_or(0)),
        number("reorder", path.reorder_segments.unwrap_or(0)),
        path.no_delayed_acks.then(|| "delayed_ack false".to_owned()),
        path.dscp.map(|dscp| format!("dscp {dscp}")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn window(key: &str, size: WindowSize) -> Option<String> {
    match size {
        WindowSize { segments: 0, bytes: 0 } => None,
        WindowSize { segments: 0, bytes } => Some(format!("{key} {bytes} bytes")),
        WindowSize { segments, .. } => Some(format!("{key} {segments} segments")),
    }
}

fn pacing(path: &PathPolicy) -> Option<String> {
    let asked = path.control.pacing;
    match path.max_pacing_bytes_per_second {
        Some(UNBOUNDED_PACING_BYTES_PER_SECOND) => Some("paced".to_owned()),
        Some(rate) => Some(format!("paced up to {}", bits_per_second(rate.into()))),
        None if asked == Pacing::On as u32 => Some("paced".to_owned()),
        None if asked == Pacing::Off as u32 => Some("not paced".to_owned()),
        None => None,
    }
}

fn bits_per_second(bytes_per_second: u64) -> String {
    format!("{} Mbit/s", (bytes_per_second as f64 * 8e-3).round() / 1e3)
}
