//! A transfer that looks for the rate of a path sends almost three times of it for three
//! round trips before BBR believes that no more comes through
//! (`bbr_check_full_bw_reached()`): most of what a probe costs on a long path. Here that is
//! seen little more than a round trip after it is so, or as soon as losses show it; from then
//! on a little more than what comes through is enough to see whether more would.

use std::time::Duration;

use super::tcp_info::TcpInfo;

/// The rate that comes through grows while it is this many times what it was, as BBR has it
/// (`bbr_full_bw_thresh`).
const GROWS: f64 = 1.25;
/// It is flat after so many round trips: while the window is small, all of it comes through at
/// once, and then nothing for a round trip.
const FLAT: f64 = 1.25;
/// Beyond a bound, less shows that there is more.
const GROWS_BEYOND_BOUND: f64 = 1.1;
/// The bound is this many times what comes through.
const BOUND: f64 = 1.15;
/// A share of losses is no chance, but a full queue (`BBRLossThresh` of BBR version 3), from so
/// many bytes on.
const LOSSES: f64 = 0.02;
const LEAST_LOST_BYTES: u64 = 32 << 10;

#[derive(Debug, Default)]
pub struct Ramp {
    /// The rate that came through when it last grew, in bytes a second, and when that was.
    base: f64,
    grew: Duration,
    /// The most that came through.
    best: f64,
    at_growth: TcpInfo,
    bound: Option<Bound>,
}

/// The transfer is kept at this rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub bytes_per_second: u64,
    /// The moment since which it is.
    pub since: Duration,
}

impl Ramp {
    /// Takes what the kernel says at a moment.
    pub fn take(&mut self, at: Duration, info: &TcpInfo) {
        let rate = info.delivery_bytes_per_second as f64;
        let (before, grows) = match self.bound {
            Some(_) => (self.best, GROWS_BEYOND_BOUND),
            None => (self.base, GROWS),
        };
        if rate > before * grows && !info.is_app_limited {
            *self = Self { base: rate, grew: at, best: rate, at_growth: *info, bound: None };
            return;
        }
        if self.bound.is_some() || self.best == 0.0 {
            return;
        }
        if !info.is_app_limited {
            self.best = self.best.max(rate);
        }
        let is_flat = at - self.grew >= Duration::from_micros(info.rtt_us.into()).mul_f64(FLAT);
        if is_flat || self.loses(info) {
            self.bound = Some(Bound { bytes_per_second: (BOUND * self.best) as u64, since: at });
        }
    }

    /// Tells whether more was lost since the last growth than by chance.
    fn loses(&self, info: &TcpInfo) -> bool {
        let since = |of: fn(&TcpInfo) -> u64| of(info).saturating_sub(of(&self.at_growth));
        let lost = since(|info| info.bytes_retransmitted);
        lost >= LEAST_LOST_BYTES && lost as f64 > LOSSES * since(|info| info.bytes_sent) as f64
    }

    /// Returns what the transfer is to be kept at now, if anything.
    pub fn bound(&self) -> Option<Bound> {
        self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn info(rate: u64) -> TcpInfo {
        TcpInfo { delivery_bytes_per_second: rate, rtt_us: 100_000, ..TcpInfo::default() }
    }

    #[test]
    fn what_has_not_grown_for_a_round_trip_is_kept_near() {
        let mut ramp = Ramp::default();
        for round in 0..6 {
            ramp.take(RTT * round, &info(1_000_000 << round));
            assert_eq!(ramp.bound(), None);
        }
        ramp.take(RTT * 5 + RTT / 2, &info(33_000_000));
        assert_eq!(ramp.bound(), None);
        ramp.take(RTT * 25 / 4, &info(32_500_000));
        let bound = Bound { bytes_per_second: 37_950_000, since: RTT * 25 / 4 };
        assert_eq!(ramp.bound(), Some(bound));
    }

    #[test]
    fn what_grows_beyond_the_bound_is_let_go() {
        let mut ramp = Ramp::default();
        ramp.take(Duration::ZERO, &info(1_000_000));
        ramp.take(RTT * 2, &info(1_000_000));
        ramp.take(RTT * 3, &info(1_090_000));
        assert_eq!(ramp.bound().map(|bound| bound.bytes_per_second), Some(1_150_000));
        ramp.take(RTT * 4, &info(1_110_000));
        assert_eq!(ramp.bound(), None);
        ramp.take(RTT * 6, &info(1_110_000));
        assert_eq!(ramp.bound().map(|bound| bound.since), Some(RTT * 6));
    }

    #[test]
    fn losses_of_a_full_queue_are_seen_at_once_and_those_by_chance_are_none() {
        let lossy = |lost, sent| {
            let mut ramp = Ramp::default();
            ramp.take(Duration::ZERO, &info(1_000_000));
            let bytes = TcpInfo { bytes_sent: sent, bytes_retransmitted: lost, ..info(1_000_000) };
            ramp.take(RTT / 4, &bytes);
            ramp.bound().is_some()
        };
        assert!(lossy(100_000, 1_000_000));
        assert!(!lossy(35_000, 2_000_000) && !lossy(15_000, 100_000));
    }

    #[test]
    fn an_application_that_sends_little_bounds_nothing() {
        let mut ramp = Ramp::default();
        let idle = TcpInfo { is_app_limited: true, ..info(1_000_000) };
        ramp.take(Duration::ZERO, &idle);
        ramp.take(RTT * 4, &idle);
        assert_eq!(ramp.bound(), None);
    }
}
