//! A flow: what is on its way, what was lost, and what the kernel does about it. It has all
//! the data in the world to send. Data count segments from 0; transmissions have numbers of their own,
//! in the order in which they were sent.

mod hear;
mod send;

use std::collections::VecDeque;

use crate::{
    channel::Channel,
    holes::Holes,
    law::Law,
    pacing::Stamp,
    recovery::Recovery,
    tcp::{State, Tcp},
};

/// A time-out is an RTT and this, the least there is of it (`tcp_rto_min`), doubled
/// each time.
const RTO_MIN_NS: u64 = 200_000_000;
const MOST_BACKOFFS: u32 = 8;

/// Segments sent at one time that are acknowledged at one time.
#[derive(Clone, Copy, Debug)]
struct Train {
    number: u64,
    data: u64,
    segments: u32,
    is_resent: bool,
    sent_ns: u64,
    ack_ns: u64,
}

/// Segments that the path has dropped, and the sender does not know it.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    number: u64,
    data: u64,
    segments: u32,
    sent_ns: u64,
}

/// Data that are to be sent again.
#[derive(Clone, Copy, Debug)]
struct Run {
    data: u64,
    segments: u32,
}

/// The window has gone down, and may have come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decrease {
    pub at_ns: u64,
    /// The window before it.
    pub window_segments: u32,
    /// It was there again so long after.
    pub back_after_ns: Option<u64>,
}

/// A flow.
pub struct Flow {
    law: Box<dyn Law>,
    pub(crate) tcp: Tcp,
    /// The RTT of the path without its queue; a change of the route changes it.
    pub rtt_ns: u64,
    most_window_segments: u64,
    moderation_ns: u64,
    has_begun: bool,
    flying: VecDeque<Train>,
    dropped: VecDeque<Dropped>,
    resend: VecDeque<Run>,
    holes: Holes,
    /// Transmissions so far.
    sent: u64,
    /// New data so far.
    next_data: u64,
    /// All new data before this have come, or are holes.
    frontier: u64,
    delivered: u64,
    lost: u64,
    resent: u64,
    recovery: Option<Recovery>,
    stamp: Stamp,
    /// The flow waits for its pace until then.
    wake_ns: u64,
    /// Something was heard of the path last then.
    progress_ns: u64,
    last_ack_ns: u64,
    has_probed: bool,
    backoffs: u32,
    /// The window counts as used or not until so much is delivered.
    usage_end: u64,
    decrease: Option<Decrease>,
    returned: Option<Decrease>,
}

impl Flow {
    pub(crate) fn new(law: Box<dyn Law>, mss_bytes: u32, rtt_ns: u64, begins_ns: u64) -> Self {
        Self {
            law,
            tcp: Tcp::begin(mss_bytes, rtt_ns),
            rtt_ns,
            most_window_segments: u64::MAX,
            moderation_ns: 0,
            has_begun: false,
            flying: VecDeque::new(),
            dropped: VecDeque::new(),
            resend: VecDeque::new(),
            holes: Holes::default(),
            sent: 0,
            next_data: 0,
            frontier: 0,
            delivered: 0,
            lost: 0,
            resent: 0,
            recovery: None,
            stamp: Stamp::default(),
            wake_ns: begins_ns,
            progress_ns: begins_ns,
            last_ack_ns: 0,
            has_probed: false,
            backoffs: 0,
            usage_end: 0,
            decrease: None,
            returned: None,
        }
    }

    /// Bounds what is on its way; 1 segment at least.
    pub(crate) fn with_window_bytes(self, bytes: u64) -> Self {
        let most_window_segments = (bytes / u64::from(self.tcp.mss_bytes)).max(1);
        Self { most_window_segments, ..self }
    }

    pub(crate) fn with_moderation_ns(self, moderation_ns: u64) -> Self {
        Self { moderation_ns, ..self }
    }

    /// The socket, as its law sees it.
    #[must_use]
    pub const fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// Segments that were sent, those sent again included.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Segments that are known to have been delivered.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Segments that are known to have been lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Segments that were sent again.
    #[must_use]
    pub const fn resent(&self) -> u64 {
        self.resent
    }

    /// Segments that have arrived by now: their ACKs may be on their way.
    #[must_use]
    pub fn arrived(&self, now_ns: u64) -> u64 {
        let has_arrived = |train: &&Train| train.ack_ns.saturating_sub(self.rtt_ns / 2) <= now_ns;
        let arrived = self.flying.iter().take_while(has_arrived);
        self.delivered + arrived.map(|train| u64::from(train.segments)).sum::<u64>()
    }

    /// The last decrease that the window has come back from; else the last of all.
    #[must_use]
    pub const fn last_decrease(&self) -> Option<Decrease> {
        if self.returned.is_some() { self.returned } else { self.decrease }
    }

    /// When something happens next.
    pub(crate) fn next_ns(&self) -> u64 {
        let ack_ns = self.next_ack_ns();
        ack_ns.min(self.wake_ns).min(self.timer_ns())
    }

    fn next_ack_ns(&self) -> u64 {
        self.flying.front().map_or(u64::MAX, |train| train.ack_ns + self.moderation_ns)
    }

    /// Where all that is on its way was dropped nothing comes any more: a probe, then a time-out.
    fn timer_ns(&self) -> u64 {
        if self.tcp.in_flight_segments == 0 || !self.flying.is_empty() {
            return u64::MAX;
        }
        let srtt_ns = u64::from(self.tcp.srtt_us) * 1000;
        let after_ns = if self.may_probe() {
            2 * srtt_ns
        } else {
            (srtt_ns + RTO_MIN_NS) << self.backoffs.min(MOST_BACKOFFS)
        };
        self.progress_ns + after_ns
    }

    fn may_probe(&self) -> bool {
        self.tcp.state == State::Open && !self.has_probed
    }

    /// Does what is due now.
    pub(crate) fn step(&mut self, now_ns: u64, channel: &mut Channel) {
        self.tcp.now_us = now_ns / 1000;
        if !self.has_begun {
            self.begin();
        }
        if self.next_ack_ns() <= now_ns {
            self.hear(now_ns);
        } else if self.timer_ns() <= now_ns {
            self.progress_ns = now_ns;
            if self.may_probe() {
                self.probe(now_ns, channel);
            } else {
                self.time_out();
            }
        }
        self.send(now_ns, channel);
    }

    fn begin(&mut self) {
        self.has_begun = true;
        self.law.begin(&mut self.tcp);
        if !self.law.is_in_control() {
            self.follow_window();
        }
    }

    /// Sends a segment beyond the window, so that its ACK tells what was lost.
    fn probe(&mut self, now_ns: u64, channel: &mut Channel) {
        self.has_probed = true;
        if self.new_data_left() == 0
            && let Some(last) = self.dropped.back_mut()
        {
            // What is sent again need not be found lost.
            last.segments -= 1;
            let data = last.data + u64::from(last.segments);
            if last.segments == 0 {
                self.dropped.pop_back();
            }
            self.resend.push_back(Run { data, segments: 1 });
            self.tcp.in_flight_segments -= 1;
            self.lost += 1;
        }
        self.transmit(now_ns, 1, 0, channel);
    }

    /// `tcp_enter_loss()`.
    fn time_out(&mut self) {
        if self.tcp.state == State::Open {
            self.ask_for_threshold();
        }
        while let Some(Dropped { data, segments, .. }) = self.dropped.pop_front() {
            self.resend.push_back(Run { data, segments });
            self.lost += u64::from(segments);
        }
        self.tcp.in_flight_segments = 0;
        self.tcp.cwnd_segments = 1;
        self.tcp.state = State::Loss;
        self.backoffs += 1;
        self.recovery = Some(Recovery::begin(self.next_data));
        self.law.time_out();
    }
}
