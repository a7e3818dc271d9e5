//! A flow has this of its path's policy, as the BPF programs take it when it begins.

use wad_common::{
    control::{Control, LONG_PATH_US, Pacing},
    division::{part_of_rate, part_of_window},
    law::{
        INFINITE_SSTHRESH, Window,
        pacing::{burst_segments, least_segments},
        resume::{Known, NEVER},
    },
    policy::{DIVIDES, PACED, Policy, RESUMES_KNOWN},
};

use crate::tcp::Tcp;

/// No part of a path is less: RFC 6928's initial window.
const LEAST_PART_SEGMENTS: u32 = 10;

/// The parameters of one of so many flows.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    pub control: Control,
    max_cwnd_segments: u32,
    max_ssthresh_segments: u32,
    pub dedicated_bytes_per_second: u64,
    path_bytes: u32,
    /// Argument of SO_MAX_PACING_RATE; 0 for none.
    max_pacing_bytes_per_second: u32,
    initial_window_segments: u32,
    flows: u32,
    /// The path's capacity as it is known, for a flow that resumes.
    pub known: Option<Known>,
}

impl Parameters {
    pub fn of(policy: &Policy, flows: u32, mss_bytes: u32) -> Self {
        let control = policy.control;
        let divided = if policy.flags & DIVIDES == 0 { 0 } else { flows };
        let or_none = |segments: u32| if segments == 0 { u32::MAX } else { segments };
        let max_cwnd_segments = control.max_cwnd.in_segments(mss_bytes);
        let is_told = policy.flags & RESUMES_KNOWN != 0 && policy.path_bytes != 0;
        let known = (is_told && policy.resume_lifetime_s != 0).then(|| Known {
            saved_cwnd_segments: policy.path_bytes / mss_bytes,
            saved_rtt_us: policy.path_rtt_us,
            until_s: NEVER,
        });
        Self {
            control,
            max_cwnd_segments: or_none(part_of_window(max_cwnd_segments, divided)),
            max_ssthresh_segments: or_none(control.max_ssthresh_segments),
            dedicated_bytes_per_second: part_of_rate(control.dedicated_bytes_per_second, divided),
            path_bytes: policy.path_bytes,
            max_pacing_bytes_per_second: policy.max_pacing_bytes_per_second,
            initial_window_segments: policy.initial_window_segments,
            flows,
            known,
        }
    }

    /// Sets what the tuner does, whatever the law.
    pub fn begin(&self, tcp: &mut Tcp) {
        if self.initial_window_segments != 0 {
            tcp.cwnd_segments = self.initial_window_segments;
        }
        match self.max_pacing_bytes_per_second {
            0 => {}
            PACED => tcp.is_paced = true,
            bytes_per_second => {
                tcp.is_paced = true;
                tcp.max_pacing_bytes_per_second = bytes_per_second.into();
            }
        }
    }

    /// Sets that, and what a law of ours does beside.
    pub fn begin_ours(&self, tcp: &mut Tcp) {
        self.begin(tcp);
        tcp.ssthresh_segments = match self.control.initial_ssthresh.in_segments(tcp.mss_bytes) {
            0 => INFINITE_SSTHRESH,
            segments => segments,
        };
        let pacing = self.control.pacing;
        let is_long = pacing == Pacing::LongPaths as u32 && tcp.srtt_us >= LONG_PATH_US;
        tcp.is_paced |= pacing == Pacing::On as u32 || is_long;
    }

    /// The flow's window, within the path's bounds.
    pub fn bounded_window(&self, tcp: &Tcp, credit_q16: u64) -> Window {
        Window {
            clamp_segments: self.max_cwnd_segments,
            max_ssthresh_segments: self.max_ssthresh_segments,
            ..tcp.window(credit_q16)
        }
    }

    pub const fn max_cwnd_segments(&self) -> u32 {
        self.max_cwnd_segments
    }

    /// Ends slow start where the flow has its part of a path that others send over, too.
    pub fn start_within_path(&self, tcp: &mut Tcp) {
        let cwnd_segments = tcp.cwnd_segments;
        let is_of_use = self.flows >= 2 && self.path_bytes > 0;
        if !is_of_use || !tcp.in_slow_start() || cwnd_segments < LEAST_PART_SEGMENTS {
            return;
        }
        let part_bytes = u64::from(self.path_bytes / self.flows);
        let has_bytes = u64::from(cwnd_segments) * u64::from(tcp.mss_bytes);
        if cwnd_segments < tcp.entitled_segments() && has_bytes >= part_bytes {
            tcp.ssthresh_segments = cwnd_segments;
        }
    }

    /// The most that a flow jumps to.
    pub fn most_jump_segments(&self, known: Known) -> u32 {
        known.saved_cwnd_segments / self.flows.max(1)
    }

    pub fn least_burst_segments(&self, tcp: &Tcp) -> u32 {
        let burst_segments = burst_segments(self.path_bytes, tcp.srtt_us, tcp.mss_bytes);
        least_segments(burst_segments, tcp.cwnd_segments)
    }
}
