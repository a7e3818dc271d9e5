//! The flows of a path start within what it carries together: each ends slow start at
//! its part of that, where others send at the same time. Alone a flow does so at its
//! `initial_ssthresh`, or when it loses (RFC 5681 section 3.1).

use wad_common::law::INITIAL_WINDOW_SEGMENTS;
use wad_ebpf::{counts, policies};

use crate::{
    parameters::{KNOWS_PATH, Parameters},
    tcp::Tcp,
};

/// Ends slow start on an ACK where the flow has its part, no less than an initial window, and its
/// window would grow.
#[inline(always)]
pub fn within_path(tcp: Tcp, parameters: Parameters) {
    // Without a capacity there is no part of it to end at, and nothing to look up.
    if !parameters.has(KNOWS_PATH) {
        return;
    }
    let cwnd_segments = tcp.cwnd_segments();
    if cwnd_segments >= tcp.ssthresh_segments() || cwnd_segments < INITIAL_WINDOW_SEGMENTS {
        return;
    }
    // A flow that something else holds back stays in slow start, for all of its ACKs.
    if cwnd_segments >= tcp.entitled_segments() {
        return;
    }
    let Some(flow) = tcp.flow().filter(|flow| flow.is_tuned()) else {
        return;
    };
    let flows = counts::senders(flow.policy);
    let Some(policy) = policies::policy(policies::generation(), flow.policy) else { return };
    if flows < 2 || policy.path_bytes == 0 {
        return;
    }
    let part_bytes = u64::from(policy.path_bytes / flows);
    if u64::from(cwnd_segments) * u64::from(tcp.mss_bytes()) >= part_bytes {
        tcp.set_ssthresh_segments(cwnd_segments);
    }
}
