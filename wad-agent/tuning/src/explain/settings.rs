//! What a policy gives, and where the numbers come from.

use wad_common::{
    control::{Control, IGNORE_LOCAL_STALLS, KEEP_WHEN_IDLE, WindowSize},
    policy::{DIVIDES, NO_DELAYED_ACKS, Policy, SETS_TRAFFIC_CLASS},
};
use wad_policy::{
    config::{
        AUTO_HEADROOM, Origin, UNBOUNDED_PACING_BYTES_PER_SECOND, decrease, increase_segments,
    },
    law::Law,
    tuning_plan::ROOM,
};
use wad_toolbox::shown::text;

use super::answer::{Settings, Window};
use crate::readings::PathState;

/// The path's.
pub fn name(policy: &Policy) -> String {
    text(&policy.name)
}

pub fn of(policy: &Policy, origin: &Origin) -> Settings {
    let some = |number: u32| (number > 0).then_some(number);
    let congestion = text(&policy.congestion);
    let general = Settings {
        sndbuf_bytes: some(policy.sndbuf_bytes),
        rcvbuf_bytes: some(policy.rcvbuf_bytes),
        divide: policy.flags & DIVIDES != 0,
        initial_window_segments: some(policy.initial_window_segments),
        initial_receive_window_segments: some(policy.initial_receive_window_segments),
        max_pacing_bytes_per_second: some(policy.max_pacing_bytes_per_second),
        delayed_ack: (policy.flags & NO_DELAYED_ACKS != 0).then_some(false),
        dscp: (policy.traffic_class & SETS_TRAFFIC_CLASS != 0)
            .then_some((policy.traffic_class as u8) >> 2),
        max_flows: some(policy.max_flows),
        reorder_segments: some(origin.reorder_segments),
        ..Settings::default()
    };
    let with_law = match Law::of_algorithm(&congestion) {
        Some(law) => law_settings(law, &policy.control, general),
        None => general,
    };
    Settings { congestion: (!congestion.is_empty()).then_some(congestion), ..with_law }
}

fn law_settings(law: Law, control: &Control, general: Settings) -> Settings {
    let some = |number: u32| (number > 0).then_some(number);
    let is_aimd = law.takes("additive_increase");
    Settings {
        additive_increase_segments: is_aimd.then(|| rounded(increase_segments(control.aimd))),
        decrease: is_aimd.then(|| rounded(decrease(control.aimd))),
        initial_ssthresh: window(control.initial_ssthresh),
        max_cwnd: window(control.max_cwnd),
        max_ssthresh_segments: some(control.max_ssthresh_segments),
        standing_queue_segments: some(control.standing_queue_segments),
        dedicated_bytes_per_second: (control.dedicated_bytes_per_second > 0)
            .then_some(control.dedicated_bytes_per_second),
        ..general
    }
}

const fn window(size: WindowSize) -> Option<Window> {
    match size {
        WindowSize { segments: 0, bytes: 0 } => None,
        WindowSize { segments: 0, bytes } => Some(Window::Bytes(bytes)),
        WindowSize { segments, .. } => Some(Window::Segments(segments)),
    }
}

/// What fixed point keeps.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// Where the settings come from, and what they do not say by themselves.
pub fn why(policy: &Policy, origin: &Origin, state: PathState) -> Vec<String> {
    let mut why = Vec::new();
    match state {
        PathState::Tuned => {}
        PathState::Observed => {
            why.push("nothing of this is given to flows: mode = \"observe\"".to_owned());
        }
        PathState::Disabled => why.push(
            "nothing of this is given to flows: the path is disabled until `wad enable`".to_owned(),
        ),
    }
    why.extend(buffers(policy, origin));
    let is_ours = Law::of_algorithm(&text(&policy.congestion)).is_some();
    if is_ours && policy.control.flags & KEEP_WHEN_IDLE != 0 {
        why.push("after a pause the window is as it was".to_owned());
    }
    if is_ours && policy.control.flags & IGNORE_LOCAL_STALLS != 0 {
        why.push("a full queue of this host is not taken for congestion".to_owned());
    }
    if policy.max_pacing_bytes_per_second == UNBOUNDED_PACING_BYTES_PER_SECOND {
        why.push("paced, at the rate that the law sets".to_owned());
    }
    why
}

fn buffers(policy: &Policy, origin: &Origin) -> Vec<String> {
    let mut why = Vec::new();
    let sizes = [
        ("sndbuf", policy.sndbuf_bytes, origin.buffers.sndbuf),
        ("rcvbuf", policy.rcvbuf_bytes, origin.buffers.rcvbuf),
    ];
    for (key, bytes, is_auto) in sizes.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
        let Some((rate, rtt)) = origin.capacity.bits_per_second.zip(origin.capacity.rtt_seconds)
        else {
            why.push(format!("{key} is {bytes} bytes because the configuration says so"));
            continue;
        };
        let bdp_bytes = rate / 8.0 * rtt;
        let path = format!("{} times {} are {bdp_bytes:.0} bytes", Rate(rate), Rtt(rtt));
        why.push(match (is_auto, origin.streams) {
            (false, _) => {
                let times = f64::from(bytes) / bdp_bytes;
                format!(
                    "{key} is {bytes} bytes because the configuration says so; {path}, of \
                         which it is {times:.2} times as much"
                )
            }
            (true, 0 | 1) => format!("{key} is {AUTO_HEADROOM} times what the path holds: {path}"),
            (true, k) => format!(
                "{key} is {AUTO_HEADROOM} times what the path holds, for each of {k} streams: \
                 {path}"
            ),
        });
    }
    if !why.is_empty() && origin.capacity.is_least {
        why.push(format!(
            "that rate is {ROOM} times what the path's flows got: each may get more than the last"
        ));
    }
    if let Some(bdp_bytes) = origin.capacity.bdp_bytes().filter(|_| origin.buffers.autotune) {
        why.push(format!(
            "the kernel sizes both buffers, up to 2 times {AUTO_HEADROOM} times the {bdp_bytes:.0} \
             bytes that the path holds: `wad run` raises the last of tcp_wmem and tcp_rmem so far, \
             for all flows of its network namespace"
        ));
        return why;
    }
    if policy.flags & DIVIDES != 0 {
        why.push(
            "each of the path's flows gets an equal part, but no less than the kernel's default"
                .to_owned(),
        );
    }
    if !why.is_empty() {
        why.push("the kernel doubles both buffers, for structures of its own".to_owned());
    }
    why
}

struct Rate(f64);

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, unit) = match self.0 {
            rate if rate >= 1e9 => (rate / 1e9, "Gbit/s"),
            rate if rate >= 1e6 => (rate / 1e6, "Mbit/s"),
            rate => (rate / 1e3, "kbit/s"),
        };
        write!(f, "{} {unit}", rounded(number))
    }
}

struct Rtt(f64);

impl std::fmt::Display for Rtt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ms", rounded(self.0 * 1e3))
    }
}
