//! A transfer tells of a path until it has told enough: a pure function of what
//! the kernel said of the connection, moment by moment.
//!
//! Under BBR the transfer ends soon after the kernel has found the pipe full, and left
//! STARTUP (`bbr_check_full_bw_reached()`: three rounds without a quarter more), or after it
//! was kept near what comes through for two (ramp.rs). These
//! rounds count: they were at the path's rate. What was delivered since they began has to
//! agree with itself: a policer lets a burst through at another rate than the rest. (That a
//! first crossing takes an eighth of the traffic of a full test, and that ten RTTs are to
//! pass, is M-Lab's finding for ndt7.)

use std::{collections::VecDeque, time::Duration};

use super::{
    ramp::Ramp,
    tcp_info::{Bbr, TcpInfo},
};
use crate::measurement::{Bandwidth, Confidence, HeldUp, RoundTrips};

/// The estimate is looked at over so many round trips, and so long at least.
const ROUND_TRIPS: u32 = 10;
const LEAST: Duration = Duration::from_millis(200);
/// On long paths, where so many round trips would be more than this much of what the path
/// carries, fewer will do.
const ENOUGH_SECONDS: f64 = 0.6;
const FEWEST_ROUND_TRIPS: u32 = 3;
/// The rounds of STARTUP in which the kernel saw no more come through.
const FULL_ROUND_TRIPS: u32 = 3;
/// The round trips that were kept near what comes through.
const BOUND_ROUND_TRIPS: u32 = 2;
/// The delivery rate is so far from what was delivered at most, as a share of that.
const AGREES: f64 = 0.1;
/// A limit counts where it held for more than this share of the time.
const LIMITED: f64 = 0.1;
/// And an application where it was the limit in more than this share of the samples.
const MOST_APPLICATION_LIMITED: f64 = 0.5;

/// A sample is what the kernel says at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Since the transfer began.
    pub at: Duration,
    pub info: TcpInfo,
    /// None under another congestion control.
    pub bbr: Option<Bbr>,
}

#[derive(Debug, Default)]
pub struct Estimate {
    first: Option<Sample>,
    last: Option<Sample>,
    /// The latest ones: under BBR since the pipe was full.
    window: VecDeque<Sample>,
    has_left_startup: bool,
    ramp: Ramp,
    rtt_seconds: Vec<f64>,
}

impl Estimate {
    /// Takes a sample, and returns whether the estimate stands.
    pub fn take(&mut self, sample: Sample) -> bool {
        self.first.get_or_insert(sample);
        self.last = Some(sample);
        self.rtt_seconds.push(f64::from(sample.info.rtt_us) / 1e6);
        self.has_left_startup |= sample.bbr.is_some_and(|bbr| !bbr.is_in_startup());
        let round_trip = Duration::from_micros(sample.info.min_rtt_us.into());
        if sample.bbr.is_some() && !self.has_left_startup {
            self.ramp.take(sample.at, &sample.info);
        }
        let was_bound_for = self.ramp.bound().map(|bound| sample.at - bound.since);
        let is_found = self.has_left_startup
            || was_bound_for.is_some_and(|time| time >= round_trip * BOUND_ROUND_TRIPS);
        let is_looking = sample.bbr.is_some() && !is_found;
        self.window.push_back(sample);
        let span = match is_looking {
            true => round_trip * FULL_ROUND_TRIPS,
            false => LEAST.max(round_trip * ROUND_TRIPS),
        };
        let is_long = |from: Duration, span| sample.at - from >= span;
        // The oldest one stays for as long as the window is not longer than it has to be.
        while self.window.get(1).is_some_and(|second| is_long(second.at, span)) {
            self.window.pop_front();
        }
        if sample.bbr.is_none() || is_looking {
            return false;
        }
        let begins = self.window[0].at;
        let delivered = sample.info.delivered_bytes as f64;
        let is_enough = delivered >= ENOUGH_SECONDS * self.usual()
            && is_long(begins, LEAST.max(round_trip * FEWEST_ROUND_TRIPS));
        (is_enough || is_long(begins, span)) && self.agrees()
    }

    /// Returns the most that is to be sent from now on, in bytes a second, if there is a bound.
    pub fn bound_bytes_per_second(&self) -> Option<u64> {
        self.ramp.bound().map(|bound| bound.bytes_per_second)
    }

    /// Returns the delivery rate of the window in bytes a second, where the application was
    /// not the limit: the median. The greatest is too large by a fifth on short paths, as
    /// acknowledgements come in bunches (seen at 50 Mbit/s and at 622, both over 20 ms).
    fn usual(&self) -> f64 {
        let samples = self.window.iter().filter(|sample| !sample.info.is_app_limited);
        let mut rates: Vec<_> =
            samples.map(|sample| sample.info.delivery_bytes_per_second).collect();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied().unwrap_or_default() as f64
    }

    /// Returns what was delivered within the window, in bytes a second.
    fn mean(&self) -> f64 {
        let ends = self.window.front().zip(self.window.back());
        ends.map_or(0.0, |(first, last)| rate(first, last))
    }

    fn agrees(&self) -> bool {
        let mean = self.mean();
        (self.usual() - mean).abs() <= AGREES * mean
    }

    /// Returns the word for what the sender was limited by, if it was not the path.
    fn limit(&self) -> Option<Confidence> {
        let (first, last) = (self.window.front()?, self.window.back()?);
        let took_us = (last.at - first.at).as_micros() as f64;
        let share = |time: fn(&TcpInfo) -> u64| {
            let held_us = time(&last.info).saturating_sub(time(&first.info));
            held_us as f64 / took_us
        };
        let limited = self.window.iter().filter(|sample| sample.info.is_app_limited).count();
        if share(|info| info.receiver_limited_us) > LIMITED {
            Some(Confidence::ReceiverLimited)
        } else if share(|info| info.send_buffer_limited_us) > LIMITED
            || limited as f64 > MOST_APPLICATION_LIMITED * self.window.len() as f64
        {
            Some(Confidence::ApplicationLimited)
        } else {
            None
        }
    }

    /// Returns what was found out, by a transfer that ended because the estimate stands,
    /// or because of a bound. None where nothing was delivered.
    pub fn bandwidth(mut self, stands: bool, congestion: String) -> Option<Bandwidth> {
        let (first, last) = (self.first?, self.last?);
        if self.mean() <= 0.0 {
            // The window is one sample, or in STARTUP so short that nothing came in it.
            self.window = [first, last].into();
        }
        let mean = self.mean();
        let rate = if self.agrees() { self.usual() } else { mean };
        if rate <= 0.0 {
            return None;
        }
        let ending = if stands { Confidence::Converged } else { Confidence::Capped };
        let confidence = self.limit().unwrap_or(ending);
        let seconds = |time: fn(&TcpInfo) -> u64| {
            time(&last.info).saturating_sub(time(&first.info)) as f64 / 1e6
        };
        Some(Bandwidth {
            bits_per_second: 8.0 * rate,
            confidence,
            loaded_rtt: RoundTrips::of(self.rtt_seconds),
            retransmitted_bytes: Some(last.info.bytes_retransmitted),
            congestion: Some(congestion),
            held_up: Some(HeldUp {
                busy_seconds: seconds(|info| info.busy_us),
                by_receiver_seconds: seconds(|info| info.receiver_limited_us),
                by_send_buffer_seconds: seconds(|info| info.send_buffer_limited_us),
            }),
        })
    }
}

/// Returns what was delivered between two moments, in bytes a second.
fn rate(first: &Sample, last: &Sample) -> f64 {
    let bytes = last.info.delivered_bytes.saturating_sub(first.info.delivered_bytes) as f64;
    let seconds = (last.at - first.at).as_secs_f64();
    if seconds > 0.0 { bytes / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests;
