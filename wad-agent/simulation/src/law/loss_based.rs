//! The laws that answer to losses, ours and the kernel's reno: as the BPF programs call them,
//! but for local stalls and idle time, which there are none of here.

use wad_common::law::{
    Aimd,
    cubic::{self, Cubic},
    hystart::{self, HyStart},
    loss_based::{Course, Delivery, LossBased, Moment},
    resume::{Ack as ResumeAck, Resume, Step},
    stall::Signs,
};

use super::{Law, Parameters};
use crate::tcp::{Ack, State, Tcp};

/// The rule by which windows grow and shrink.
pub enum Rule {
    /// A pair of a window.
    Pair(fn(&Parameters, u32) -> Aimd),
    /// `wad_cubic`.
    Cubic { state: Cubic, fraction_q32: u32 },
}

impl Rule {
    pub const CUBIC: Self = Self::Cubic { state: Cubic::START, fraction_q32: 0 };

    fn grow(&mut self, parameters: &Parameters, tcp: &Tcp, ack: &Ack) -> Aimd {
        match self {
            Self::Pair(pair) => pair(parameters, tcp.cwnd_segments),
            Self::Cubic { .. } if tcp.in_slow_start() => Aimd::STANDARD,
            Self::Cubic { state, fraction_q32 } => {
                let ack = cubic::Ack {
                    now_us: tcp.now_us,
                    srtt_us: tcp.srtt_us,
                    acked_segments: ack.acked_segments,
                    prior_segments: tcp.prior_cwnd_segments,
                    fraction_q32: *fraction_q32,
                };
                let (increase_q16, fraction) =
                    state.grow(tcp.cwnd_segments, &ack, cubic::flows(parameters.control.aimd));
                *fraction_q32 = fraction;
                Aimd { increase_q16, ..Aimd::STANDARD }
            }
        }
    }

    fn shrink(&mut self, parameters: &Parameters, cwnd_segments: u32) -> Aimd {
        match self {
            Self::Pair(pair) => pair(parameters, cwnd_segments),
            Self::Cubic { state, fraction_q32 } => {
                *fraction_q32 = 0;
                state.shrink(cwnd_segments, cubic::flows(parameters.control.aimd))
            }
        }
    }
}

/// A flow under such a law: its rule, and its state.
pub struct LossBasedLaw {
    rule: Rule,
    parameters: Parameters,
    is_ours: bool,
    state: LossBased,
    hystart: HyStart,
    course: Course,
}

impl LossBasedLaw {
    /// One of ours, or one that the kernel has by itself.
    pub const fn new(rule: Rule, parameters: Parameters, is_ours: bool) -> Self {
        let (state, course) = (LossBased::START, Course::START);
        Self { rule, parameters, is_ours, state, hystart: HyStart::START, course }
    }

    /// Does what Careful Resume asks for; whether the window is settled with that.
    fn resume(&mut self, tcp: &mut Tcp) -> bool {
        let step = self.state.resume.on_ack(&ResumeAck {
            now_us: tcp.now_us,
            latest_rtt_us: tcp.latest_rtt_us,
            srtt_us: tcp.srtt_us,
            delivered_segments: tcp.delivered_segments,
            retransmitted_segments: tcp.retransmitted_segments,
            in_flight_segments: tcp.in_flight_segments,
            cwnd_segments: tcp.cwnd_segments,
            ssthresh_segments: tcp.ssthresh_segments,
            is_cwnd_limited: tcp.is_cwnd_limited,
            // All are there from the start, and what is known is divided among them.
            sharing_flows: 1,
        });
        match step {
            Step::Normal => return false,
            Step::Hold => {}
            Step::Jump(window) | Step::Settle(window) => {
                let most_segments = self.parameters.max_cwnd_segments();
                tcp.cwnd_segments = window.cwnd_segments.min(most_segments);
                tcp.ssthresh_segments = window.ssthresh_segments;
            }
        }
        if matches!(step, Step::Jump(_)) {
            tcp.is_paced = true;
            self.hystart = HyStart::RESUMED;
        }
        true
    }

    /// Ends slow start where the path shows a queue. Returns how the window is to grow until then.
    fn end_slow_start(&mut self, tcp: &mut Tcp, ack: &Ack) -> HyStart {
        if !self.is_ours || !HyStart::is_for(tcp.ssthresh_segments) {
            return HyStart::START;
        }
        let is_over = self.hystart.ends_with(&hystart::Ack {
            latest_rtt_us: tcp.latest_rtt_us,
            acked_segments: ack.acked_segments,
            rapid_start_allowed: tcp.is_paced && tcp.prior_cwnd_segments == 0,
        });
        if is_over {
            tcp.ssthresh_segments = tcp.cwnd_segments;
            return HyStart::START;
        }
        self.hystart
    }
}

impl Law for LossBasedLaw {
    fn begin(&mut self, tcp: &mut Tcp) {
        if !self.is_ours {
            return self.parameters.begin(tcp);
        }
        self.parameters.begin_ours(tcp);
        if let Some(known) = self.parameters.known {
            let most_segments = self.parameters.most_jump_segments(known);
            let cwnd = tcp.cwnd_segments;
            let end = tcp.delivered_segments.wrapping_add(cwnd);
            self.state.resume = Resume::begin(known, most_segments, cwnd, end);
        }
    }

    fn on_ack(&mut self, tcp: &mut Tcp, ack: &Ack) {
        if self.resume(tcp) {
            return;
        }
        if self.is_ours {
            self.parameters.start_within_path(tcp);
        }
        let entitled_segments = tcp.entitled_segments();
        let mut before = self.parameters.bounded_window(tcp, self.state.credit_q16);
        let mut after = before;
        if before.cwnd_segments > before.clamp_segments {
            before.cwnd_segments = before.clamp_segments;
            after = before;
        } else if before.cwnd_segments < entitled_segments {
            before.clamp_segments = before.clamp_segments.min(entitled_segments);
            let hystart = self.end_slow_start(tcp, ack);
            before.ssthresh_segments = tcp.ssthresh_segments;
            after = if hystart.grows_conservatively(&before) {
                hystart::grow(before, ack.acked_segments)
            } else {
                let law = self.rule.grow(&self.parameters, tcp, ack);
                law.on_ack(before, hystart.growth_segments(&before, ack.acked_segments))
            };
            self.state.credit_q16 = after.credit_q16;
        }
        tcp.cwnd_segments = after.cwnd_segments;
        self.course.grow(&before, &after);
    }

    fn ssthresh(&mut self, tcp: &Tcp) -> u32 {
        let moment = Moment {
            now_us: tcp.now_us,
            srtt_us: tcp.srtt_us,
            cwnd_segments: tcp.cwnd_segments,
            ssthresh_segments: tcp.ssthresh_segments,
            prior_cwnd_segments: tcp.prior_cwnd_segments,
            in_flight_segments: tcp.in_flight_segments,
            delivered_segments: tcp.delivered_segments,
            retransmitted_segments: tcp.retransmitted_segments,
            delivery: Delivery { segments: 0, interval_us: 0 },
            signs: Signs {
                lost_segments: u32::from(tcp.state == State::Open),
                sacked_segments: 0,
                delivered_ce_segments: 0,
            },
            ignores_stalls: false,
        };
        let Self { rule, parameters, .. } = self;
        let respond = |segments| rule.shrink(parameters, segments);
        self.state.on_asked(&mut self.course, &moment, respond).ssthresh_segments
    }

    fn time_out(&mut self) {
        if let Rule::Cubic { state, .. } = &mut self.rule {
            state.time_out();
        }
    }

    fn is_rapid(&self, tcp: &Tcp) -> bool {
        HyStart::is_for(tcp.ssthresh_segments) && self.hystart.is_rapid()
    }

    fn ours(&self) -> Option<&Parameters> {
        self.is_ours.then_some(&self.parameters)
    }
}
