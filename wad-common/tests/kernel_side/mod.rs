//! The kernel has a part in a flow under a law that answers to losses: the states of
//! `net/ipv4/tcp_input.c` (Linux 6.12), as far as they ask the law or tell it, and what
//! the programs do in between, which read fields, call the law and store.

use std::mem;

use wad_common::law::{
    Aimd, INFINITE_SSTHRESH, ShownPhase, Window,
    loss_based::{Change, Course, Delivery, LossBased, Moment, reduced_segments},
    skipped::{is_unanswered, window_segments},
    stall::{Ending, Signs},
};

/// All segments have this size.
const MSS_BYTES: u32 = 1_448;

/// A flow's fields in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// `icsk_ca_state`.
    pub state: u8,
    /// The number of times that the state has changed.
    changes: u32,
    pub cwnd_segments: u32,
    pub ssthresh_segments: u32,
    prior_cwnd_segments: u32,
    prior_ssthresh_segments: u32,
    lost_segments: u32,
    delivered_ce_segments: u32,
    now_us: u64,
}

impl Kernel {
    // enum tcp_ca_state (include/uapi/linux/tcp.h).
    pub const OPEN: u8 = 0;
    pub const CWR: u8 = 2;
    pub const RECOVERY: u8 = 3;
    pub const LOSS: u8 = 4;

    pub const fn has_changed_since(&self, before: &Self) -> bool {
        self.changes != before.changes
    }

    /// Does as the kernel's `tcp_current_ssthresh()`.
    const fn current_ssthresh_segments(&self) -> u32 {
        let most_segments = (self.cwnd_segments >> 1) + (self.cwnd_segments >> 2);
        if self.ssthresh_segments > most_segments { self.ssthresh_segments } else { most_segments }
    }
}

/// A flow, and its law.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub kernel: Kernel,
    pub law: LossBased,
    pub course: Course,
    /// The flow's window holds it back.
    pub is_limited: bool,
    response: fn(u32) -> Aimd,
    ignores_stalls: bool,
    keeps_when_idle: bool,
    /// The value in place of the result of the next `ssthresh()`.
    skipped: Option<u32>,
    /// Nobody is told of the next change of the state.
    skips_change: bool,
}

impl Flow {
    pub const fn new(
        cwnd_segments: u32,
        response: fn(u32) -> Aimd,
        ignores_stalls: bool,
        keeps_when_idle: bool,
    ) -> Self {
        let kernel = Kernel {
            state: Kernel::OPEN,
            changes: 0,
            cwnd_segments,
            ssthresh_segments: INFINITE_SSTHRESH,
            prior_cwnd_segments: 0,
            prior_ssthresh_segments: 0,
            lost_segments: 0,
            delivered_ce_segments: 0,
            now_us: 1_000_000_000_000,
        };
        Self {
            kernel,
            law: LossBased::START,
            course: Course::START,
            is_limited: true,
            response,
            ignores_stalls,
            keeps_when_idle,
            skipped: None,
            skips_change: false,
        }
    }

    pub const fn has_garbage(&self) -> bool {
        is_unanswered(self.kernel.ssthresh_segments)
    }

    /// Takes an ACK that tells of no congestion.
    pub fn ack(&mut self, after_us: u64, acked_segments: u32) {
        self.kernel.now_us += after_us;
        self.on_ack(acked_segments);
    }

    /// Does as the kernel's `tcp_cong_control()`.
    fn on_ack(&mut self, acked_segments: u32) {
        match self.kernel.state {
            Kernel::CWR | Kernel::RECOVERY => {
                // `tcp_cwnd_reduction()`, in one go.
                let ssthresh_segments = self.kernel.ssthresh_segments;
                let cwnd_segments = &mut self.kernel.cwnd_segments;
                *cwnd_segments = if ssthresh_segments > INFINITE_SSTHRESH {
                    // It goes the other way.
                    cwnd_segments.saturating_add(acked_segments).min(INFINITE_SSTHRESH)
                } else {
                    (*cwnd_segments).min(ssthresh_segments).max(1)
                };
            }
            _ => self.cong_avoid(acked_segments),
        }
    }

    /// Has a packet of this host's refused by its own queue (`tcp_enter_cwr()`).
    pub fn stall(&mut self) {
        self.enter_cwr();
    }

    /// Takes an ACK with ECE.
    pub fn mark(&mut self) {
        self.kernel.now_us += 1000;
        self.kernel.delivered_ce_segments = self.kernel.delivered_ce_segments.wrapping_add(1);
        self.enter_cwr();
        self.on_ack(1);
    }

    /// Takes the ACK for a probe, which tells that it has repaired a loss
    /// (`tcp_process_tlp_ack()`): the answer begins and ends with it.
    pub fn probe(&mut self) {
        self.kernel.now_us += 1000;
        if self.kernel.state < Kernel::CWR {
            self.enter_cwr();
            self.recover();
        }
        self.on_ack(1);
    }

    /// Takes an ACK that tells of segments lost (`tcp_enter_recovery()`).
    pub fn lose(&mut self, segments: u32) {
        self.kernel.now_us += 1000;
        self.kernel.lost_segments += segments;
        if self.kernel.state >= Kernel::RECOVERY {
            return;
        }
        if self.kernel.state != Kernel::CWR {
            self.init_reduction();
        }
        self.set_state(Kernel::RECOVERY);
        self.on_ack(1);
    }

    /// Does as the kernel's `tcp_enter_loss()`.
    pub fn time_out(&mut self) {
        self.kernel.now_us += 1_000_000;
        self.kernel.lost_segments += 1;
        if self.kernel.state < Kernel::CWR {
            self.kernel.prior_ssthresh_segments = self.kernel.current_ssthresh_segments();
            self.kernel.prior_cwnd_segments = self.kernel.cwnd_segments;
            self.ask();
        }
        self.kernel.cwnd_segments = 1;
        self.set_state(Kernel::LOSS);
    }

    /// Does as the kernel's `tcp_end_cwnd_reduction()`, and the state is open again.
    pub fn recover(&mut self) {
        if self.kernel.state == Kernel::OPEN {
            return;
        }
        let is_reduction =
            self.kernel.state == Kernel::CWR || self.kernel.state == Kernel::RECOVERY;
        if is_reduction && self.kernel.ssthresh_segments < INFINITE_SSTHRESH {
            self.kernel.cwnd_segments =
                self.kernel.cwnd_segments.min(self.kernel.ssthresh_segments);
        }
        self.kernel.lost_segments = 0;
        self.set_state(Kernel::OPEN);
    }

    /// Does as the kernel's `tcp_undo_cwnd_reduction()`.
    pub fn undo(&mut self) {
        if self.kernel.state < Kernel::RECOVERY {
            return;
        }
        let prior_segments = self.kernel.prior_cwnd_segments;
        self.kernel.cwnd_segments = Aimd::on_undo(self.kernel.cwnd_segments, prior_segments);
        let prior_ssthresh_segments = self.kernel.prior_ssthresh_segments;
        if prior_ssthresh_segments > self.kernel.ssthresh_segments {
            self.kernel.ssthresh_segments = prior_ssthresh_segments;
        }
        self.kernel.lost_segments = 0;
        self.set_state(Kernel::OPEN);
    }

    /// Does as the kernel's `tcp_cwnd_restart()`.
    pub fn idle(&mut self) {
        self.kernel.now_us += 10_000_000;
        if self.kernel.state == Kernel::OPEN && !self.has_garbage() {
            self.kernel.ssthresh_segments = self.kernel.current_ssthresh_segments();
            self.kernel.cwnd_segments = self.kernel.cwnd_segments.min(10);
        }
    }

    pub const fn skip(&mut self, garbage: u32) {
        self.skipped = Some(garbage);
    }

    pub const fn skip_change(&mut self) {
        self.skips_change = true;
    }

    pub const fn skips_change(&self) -> bool {
        self.skips_change
    }

    fn enter_cwr(&mut self) {
        if self.kernel.state < Kernel::CWR {
            self.init_reduction();
            self.set_state(Kernel::CWR);
        }
    }

    /// Does as the kernel's `tcp_init_cwnd_reduction()`.
    fn init_reduction(&mut self) {
        self.kernel.prior_ssthresh_segments = self.kernel.current_ssthresh_segments();
        self.kernel.prior_cwnd_segments = self.kernel.cwnd_segments;
        self.ask();
    }

    fn ask(&mut self) {
        self.kernel.ssthresh_segments = match self.skipped.take() {
            Some(garbage) => garbage,
            None => self.ssthresh(),
        };
    }

    fn set_state(&mut self, state: u8) {
        let change = match (self.kernel.state == Kernel::CWR, state >= Kernel::RECOVERY) {
            (true, true) => Change::LossFoundInCwr,
            (true, false) => Change::CwrEnds,
            (false, true) => Change::LossFound,
            (false, false) => Change::Other,
        };
        if !mem::take(&mut self.skips_change) {
            let moment = self.moment();
            let response = self.response;
            let answer = self.law.on_change(&mut self.course, &moment, change, response);
            if let Some(segments) = answer {
                self.reduce_to(segments);
            }
        }
        self.kernel.state = state;
        self.kernel.changes += 1;
    }

    // What the programs do.

    fn ssthresh(&mut self) -> u32 {
        let moment = self.moment();
        let answer = self.law.on_asked(&mut self.course, &moment, self.response);
        answer.ssthresh_segments
    }

    fn cong_avoid(&mut self, acked_segments: u32) {
        let Kernel { cwnd_segments, prior_cwnd_segments, .. } = self.kernel;
        self.kernel.cwnd_segments = window_segments(cwnd_segments, prior_cwnd_segments);
        self.make_good_idle_time();
        self.answer_late();
        let kernel = &mut self.kernel;
        let is_held = self.ignores_stalls && self.law.stall.holds_back(kernel.now_us, 50_000);
        let before = Window {
            cwnd_segments: kernel.cwnd_segments,
            ssthresh_segments: kernel.ssthresh_segments,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: u32::MAX,
            credit_q16: self.law.credit_q16,
        };
        let mut after = before;
        if self.is_limited && !is_held {
            after = (self.response)(before.cwnd_segments).on_ack(before, acked_segments);
            kernel.cwnd_segments = after.cwnd_segments;
            self.law.credit_q16 = after.credit_q16;
        }
        self.course.grow(&before, &after);
        let shown = ShownPhase::of_growing(&after);
        assert_eq!(self.course.phase().map(|phase| phase as u8), Some(shown as u8));
        if self.keeps_when_idle {
            self.law.open.note(after.cwnd_segments, MSS_BYTES);
        }
    }

    const fn make_good_idle_time(&mut self) {
        if self.keeps_when_idle
            && let Some(segments) =
                self.law.open.lost_segments(self.kernel.cwnd_segments, MSS_BYTES)
        {
            self.kernel.cwnd_segments = segments;
        }
    }

    fn answer_late(&mut self) {
        if self.has_garbage() || self.ignores_stalls && self.is_more_than_stall() {
            let moment = self.moment();
            let response = self.response;
            let segments = self.law.answer_late(&mut self.course, &moment, response);
            self.reduce_to(segments);
        }
    }

    const fn is_more_than_stall(&mut self) -> bool {
        let kernel = &mut self.kernel;
        let ending = self.law.stall.on_ack(kernel.now_us, kernel.delivered_ce_segments);
        if let Ending::MadeGood(segments) = ending {
            kernel.ssthresh_segments = segments;
        }
        matches!(ending, Ending::Congestion)
    }

    fn reduce_to(&mut self, segments: u32) {
        self.kernel.ssthresh_segments = segments;
        self.kernel.cwnd_segments = reduced_segments(self.kernel.cwnd_segments, segments);
    }

    const fn moment(&self) -> Moment {
        let kernel = &self.kernel;
        Moment {
            now_us: kernel.now_us,
            srtt_us: 50_000,
            cwnd_segments: kernel.cwnd_segments,
            ssthresh_segments: kernel.ssthresh_segments,
            prior_cwnd_segments: kernel.prior_cwnd_segments,
            in_flight_segments: kernel.cwnd_segments,
            delivered_segments: 0,
            retransmitted_segments: 0,
            delivery: Delivery { segments: 0, interval_us: 0 },
            signs: Signs {
                lost_segments: kernel.lost_segments,
                sacked_segments: 0,
                delivered_ce_segments: kernel.delivered_ce_segments,
            },
            ignores_stalls: self.ignores_stalls,
        }
    }
}
