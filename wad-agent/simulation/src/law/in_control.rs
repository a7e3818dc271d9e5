//! The laws that have window and pacing rate to themselves: as the BPF programs call them.

use wad_common::law::{
    Window,
    delay::Delay,
    leaky::{Leaky, Losses},
    pacing::window_bytes_per_second,
};

use super::{Law, Parameters};
use crate::tcp::{Ack, Tcp};

/// Paces at the rate that fits the window.
fn follow_window(tcp: &mut Tcp, window: &Window, doubles: bool) {
    tcp.is_paced = true;
    if let Some(rate) = window_bytes_per_second(window, tcp.mss_bytes, tcp.srtt_us, doubles) {
        tcp.pace_at(rate);
    }
}

fn change_window(tcp: &mut Tcp, after: &Window) {
    tcp.cwnd_segments = after.cwnd_segments;
    tcp.ssthresh_segments = after.ssthresh_segments;
}

/// A flow under control by delay.
pub struct DelayLaw {
    parameters: Parameters,
    state: Delay,
}

impl DelayLaw {
    pub const fn new(parameters: Parameters) -> Self {
        Self { parameters, state: Delay::start(0) }
    }
}

impl Law for DelayLaw {
    fn begin(&mut self, tcp: &mut Tcp) {
        self.parameters.begin_ours(tcp);
        follow_window(tcp, &self.parameters.bounded_window(tcp, 0), true);
    }

    fn is_in_control(&self) -> bool {
        true
    }

    fn on_ack(&mut self, tcp: &mut Tcp, ack: &Ack) {
        self.parameters.start_within_path(tcp);
        let before = self.parameters.bounded_window(tcp, 0);
        let queue_segments = self.parameters.control.standing_queue_segments;
        let after = self.state.on_ack(before, &tcp.sample(ack), queue_segments);
        change_window(tcp, &after);
        follow_window(tcp, &after, self.state.is_starting(&after));
    }

    fn ssthresh(&mut self, tcp: &Tcp) -> u32 {
        self.state.on_congestion(tcp.cwnd_segments)
    }

    fn ours(&self) -> Option<&Parameters> {
        Some(&self.parameters)
    }
}

/// A flow over a leaky path.
pub struct LeakyLaw {
    parameters: Parameters,
    state: Leaky,
}

impl LeakyLaw {
    pub const fn new(parameters: Parameters) -> Self {
        Self { parameters, state: Leaky::start(0, 0) }
    }
}

impl Law for LeakyLaw {
    fn begin(&mut self, tcp: &mut Tcp) {
        self.parameters.begin_ours(tcp);
        follow_window(tcp, &self.parameters.bounded_window(tcp, 0), true);
    }

    fn is_in_control(&self) -> bool {
        true
    }

    fn on_ack(&mut self, tcp: &mut Tcp, ack: &Ack) {
        self.parameters.start_within_path(tcp);
        let losses = Losses {
            lost_segments: ack.lost_segments,
            // No timer finds any, but that of a time-out.
            missing_segments: 0,
            marked_segments: 0,
            prior_segments: tcp.prior_cwnd_segments,
        };
        let before = self.parameters.bounded_window(tcp, 0);
        let after = self.state.on_ack(before, &tcp.sample(ack), &losses);
        change_window(tcp, &after);
        follow_window(tcp, &after, self.state.is_starting(&after));
    }

    fn ssthresh(&mut self, tcp: &Tcp) -> u32 {
        self.state.on_congestion(tcp.window(0))
    }

    fn time_out(&mut self) {
        self.state.on_timeout();
    }

    fn ours(&self) -> Option<&Parameters> {
        Some(&self.parameters)
    }
}

/// A flow on a path of its own: window and rate are held.
pub struct DedicatedLaw {
    parameters: Parameters,
}

impl DedicatedLaw {
    pub const fn new(parameters: Parameters) -> Self {
        Self { parameters }
    }

    fn hold_rate(&self, tcp: &mut Tcp) {
        tcp.is_paced = true;
        tcp.pace_at(self.parameters.dedicated_bytes_per_second);
    }
}

impl Law for DedicatedLaw {
    fn begin(&mut self, tcp: &mut Tcp) {
        self.parameters.begin_ours(tcp);
        self.hold_rate(tcp);
    }

    fn is_in_control(&self) -> bool {
        true
    }

    fn on_ack(&mut self, tcp: &mut Tcp, _: &Ack) {
        tcp.cwnd_segments = self.parameters.max_cwnd_segments();
        self.hold_rate(tcp);
    }

    fn ssthresh(&mut self, tcp: &Tcp) -> u32 {
        tcp.cwnd_segments
    }

    fn ours(&self) -> Option<&Parameters> {
        Some(&self.parameters)
    }
}
