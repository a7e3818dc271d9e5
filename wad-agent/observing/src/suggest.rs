//! Suggests paths from what connections got: for those that larger buffers would help, the
//! policy to paste, and for the others why none would. Nothing that takes more than a fair
//! share is suggested. All of it is a function of readings.

mod evidence;
mod found;
mod path;
mod prefixes;
mod show;
#[cfg(test)]
mod tests;
mod totals;

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    net::IpAddr,
};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use wad_common::flow::Outcome;
use wad_instruments::{Flow, Reading};
use wad_policy::tuning_plan::KernelBuffers;
use wad_toolbox::shown;

pub use self::{
    found::Found,
    prefixes::{are_rates_alike, are_rtts_alike, common, shortest},
};
use self::{path::SuggestedPath, totals::Totals};
use crate::diagnose::{Course, Limit};

/// So many addresses are told apart at most.
const MOST_REMOTES: usize = 16_384;

/// Suggestions, those for most data first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Suggestions {
    /// The time that connections were watched for.
    pub seconds: f64,
    pub left_out: LeftOut,
    pub suggestions: Vec<Suggestion>,
}

/// Connections that nothing is said of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Connections on a path that tunes them already.
    pub tuned: u64,
    /// Connections that were seen at one look only.
    pub too_short: u64,
    /// Connections to addresses with which no data were exchanged, or waited to be.
    pub idle: u64,
    /// Connections to more addresses than are told apart.
    pub beyond_bound: u64,
}

/// A suggestion is for all connections to a prefix.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Suggestion {
    /// The addresses that were seen are in this prefix.
    pub remote: String,
    pub connections: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// The least RTT of any of them.
    pub rtt_seconds: Option<f64>,
    /// The most that one of them got from one look to the next.
    pub fastest_bits_per_second: f64,
    /// The limits while they had anything to do, the largest part first.
    pub limits: Vec<LimitShare>,
    /// The policy to paste; null where no policy here helps.
    pub path: Option<SuggestedPath>,
    /// Sentences: what the other end could do, or why nothing here helps.
    pub notes: Vec<String>,
}

/// The part of the time for which connections were limited so.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LimitShare {
    pub limit: Limit,
    pub share: f64,
    /// A sentence that says how that is known, where there are numbers.
    pub evidence: Option<String>,
}

/// Watches connections, look by look.
#[derive(Default)]
pub struct Watch {
    begun: Option<Timestamp>,
    last: Option<Timestamp>,
    /// The connections of the last look, by cookie.
    before: HashMap<u64, Seen>,
    totals: BTreeMap<IpAddr, Totals>,
    left_out: LeftOut,
    /// Connections on paths that tune them are judged as all others.
    takes_tuned: bool,
}

struct Seen {
    flow: Flow,
    /// It has been seen at the look before, too.
    is_judged: bool,
}

impl Watch {
    /// Judges connections on paths that tune them, too.
    #[must_use]
    pub fn of_all() -> Self {
        Self { takes_tuned: true, ..Self::default() }
    }

    /// Takes what there is now.
    pub fn look(&mut self, reading: Reading) {
        self.begun.get_or_insert(reading.time);
        self.last = Some(reading.time);
        let mut before = std::mem::take(&mut self.before);
        for flow in reading.flows {
            let earlier = before.remove(&flow.cookie);
            let is_judged = match &earlier {
                Some(earlier) => self.compare(earlier, &flow),
                None => {
                    self.left_out.tuned += u64::from(is_tuned(&flow));
                    false
                }
            };
            self.before.insert(flow.cookie, Seen { flow, is_judged });
        }
        let too_short = |seen: &&Seen| !seen.is_judged && self.is_of_interest(&seen.flow);
        self.left_out.too_short += before.values().filter(too_short).count() as u64;
    }

    /// Adds what a connection did since the last look. Returns whether it is among those
    /// that are judged.
    fn compare(&mut self, earlier: &Seen, now: &Flow) -> bool {
        if !self.is_of_interest(now) {
            return earlier.is_judged;
        }
        let is_known = self.totals.len() < MOST_REMOTES;
        let totals = match self.totals.entry(now.remote.ip().to_canonical()) {
            Entry::Occupied(totals) => totals.into_mut(),
            Entry::Vacant(place) if is_known => place.insert(Totals::default()),
            Entry::Vacant(_) => {
                self.left_out.beyond_bound += u64::from(!earlier.is_judged);
                return true;
            }
        };
        totals.connections += u64::from(!earlier.is_judged);
        if let Some(course) = Course::between(&earlier.flow, now) {
            totals.add(&course);
        }
        true
    }

    /// Whether something could be suggested for a connection: no path of the host's own has
    /// anything to gain.
    fn is_of_interest(&self, flow: &Flow) -> bool {
        (self.takes_tuned || !is_tuned(flow)) && !flow.remote.ip().to_canonical().is_loopback()
    }

    /// Returns what is suggested so far, on a host whose kernel gives so much by itself.
    #[must_use]
    pub fn suggestions(&self, kernel: KernelBuffers) -> Suggestions {
        let seconds = self.begun.zip(self.last).map(|(begun, last)| last.duration_since(begun));
        let (busy, idle): (Vec<_>, Vec<_>) =
            self.totals.iter().partition(|(_, totals)| totals.busy_seconds > 0.0);
        let idle = idle.iter().map(|(_, totals)| totals.connections).sum();
        let groups = prefixes::grouped(&busy, kernel);
        let mut suggestions: Vec<Suggestion> =
            groups.into_iter().map(|(remote, totals)| totals.suggest(remote, kernel)).collect();
        let moved = |it: &Suggestion| it.sent_bytes.saturating_add(it.received_bytes);
        suggestions.sort_by_key(|it| std::cmp::Reverse(moved(it)));
        Suggestions {
            seconds: seconds.map_or(0.0, |it| it.as_secs_f64()),
            left_out: LeftOut { idle, ..self.left_out },
            suggestions,
        }
    }
}

fn is_tuned(flow: &Flow) -> bool {
    flow.outcome == shown::outcome(Outcome::Tuned as u32)
}
