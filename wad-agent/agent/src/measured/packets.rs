//! The flows of the paths show what those do to packets: what the kernel has counted of
//! each flow that runs is read now and then, and compared with the time before.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use wad_instruments::{Flow, name};
use wad_observing::reading::{Instruments, ReadError};
use wad_policy::{
    config::{AutoTraits, Metric, PathPolicy, Source, SourceKind},
    tuning_plan::{FlowCounts, Look},
};
use wad_toolbox::attempts::Attempts;
use wad_tuning::bpf::Tuning;

use super::{Board, Now, looks};

const INSTRUMENTS: [&str; 7] = [
    name::DATA_SEGS_OUT,
    name::SEGS_RETRANS,
    name::DSACK_DUPS,
    name::SMOOTHED_RTT,
    name::MIN_RTT,
    name::REORDER_EVENTS,
    name::RETRAN_THRESH,
];
/// The member of `struct tcp_sock` that counts segments that were marked (RFC 3168).
const MARKED: &str = "delivered_ce";

/// Reads the flows that run.
type Read = Box<dyn Fn() -> Result<Vec<Flow>, ReadError> + Send>;

/// The looks at the flows.
pub struct Packets {
    read: Read,
    attempts: Attempts,
    interval: Duration,
    looked_at: Option<Instant>,
    /// The flows as they were at that look, by their cookies.
    flows: HashMap<u64, (usize, FlowCounts)>,
}

/// Flows are looked at as by the source of that kind: the file's, or the one that there
/// is by default.
fn passive(sources: &[Source]) -> Source {
    let of_file = sources.iter().find(|source| source.kind == SourceKind::Passive);
    of_file.map_or_else(Source::passive, Clone::clone)
}

/// Returns the time after which what flows have shown counts no more.
pub fn stale_after(sources: &[Source]) -> Duration {
    passive(sources).stale_after
}

impl Packets {
    /// Returns the looks; None where no path is to follow from them.
    pub fn of(sources: &[Source], paths: &[PathPolicy], tuning: &Arc<Tuning>) -> Option<Self> {
        let traits = paths.iter().filter_map(|path| Some(path.measured?.traits));
        traits.into_iter().any(AutoTraits::any).then(|| Self {
            read: reading(Instruments::new(Arc::clone(tuning))),
            attempts: Attempts::new(),
            interval: passive(sources).interval,
            looked_at: None,
            flows: HashMap::new(),
        })
    }

    /// Takes in what the flows that run show, if it is time.
    pub fn see(&mut self, board: &Board, now: Now) {
        let is_soon = |at| now.awake.saturating_duration_since(at) < self.interval;
        if self.looked_at.is_some_and(is_soon) || !self.attempts.is_due(now.awake) {
            return;
        }
        let Some(flows) = self.read(now.awake) else { return };
        self.looked_at = Some(now.awake);
        let store = board.store();
        let mut states = board.states();
        let target = |flow: &Flow| {
            let follows = |target: &usize| states[*target].auto.any();
            board.targets.named(&flow.path).filter(follows)
        };
        let flows = flows.iter();
        let flows = flows.filter_map(|flow| Some((flow.cookie, (target(flow)?, counts(flow)))));
        let before = std::mem::replace(&mut self.flows, flows.collect());
        for (target, pairs) in pairs(&before, &self.flows) {
            let state = &mut states[target];
            let measured = store.findings(target, now.time).fresh(Metric::Rtt);
            let look = Look::new(&pairs, measured.or(state.fallback.rtt_seconds));
            state.behaviour.add(&look, now.since_boot);
        }
    }

    /// Reads the flows that run. The next look goes on from the one before a failure.
    fn read(&mut self, now: Instant) -> Option<Vec<Flow>> {
        let words = (
            "`reorder` and `loss` that are \"auto\" follow the flows again",
            "`reorder` and `loss` that are \"auto\" do not follow the flows until these can be \
             read again",
        );
        looks::seen(&mut self.attempts, (self.read)(), now, words)
    }
}

fn reading(instruments: Instruments) -> Read {
    let (names, fields) = (INSTRUMENTS.map(str::to_owned), [MARKED.to_owned()]);
    Box::new(move || Ok(instruments.read_only(names.to_vec(), fields.to_vec())?.flows))
}

/// A flow at the look before and now.
type Pair = (FlowCounts, FlowCounts);

/// Returns the flows of each target that were there at both looks.
fn pairs(
    before: &HashMap<u64, (usize, FlowCounts)>,
    now: &HashMap<u64, (usize, FlowCounts)>,
) -> HashMap<usize, Vec<Pair>> {
    let mut pairs: HashMap<usize, Vec<Pair>> = HashMap::new();
    for (cookie, (target, now)) in now {
        match before.get(cookie) {
            Some((was, before)) if was == target => {
                pairs.entry(*target).or_default().push((*before, *now));
            }
            _ => {}
        }
    }
    pairs
}

fn counts(flow: &Flow) -> FlowCounts {
    // Whole numbers of 32 bits, as the kernel has them; what is not known is 0.
    let number = |name| flow.instruments.get(name).unwrap_or(0.0) as u32;
    FlowCounts {
        sent_segments: number(name::DATA_SEGS_OUT),
        resent_segments: number(name::SEGS_RETRANS),
        duplicate_segments: number(name::DSACK_DUPS),
        marked_segments: number(MARKED),
        rtt_us: number(name::SMOOTHED_RTT),
        min_rtt_us: number(name::MIN_RTT),
        reorderings: number(name::REORDER_EVENTS),
        reordering_segments: number(name::RETRAN_THRESH),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::sources::{Store, testing::two_paths};

    #[test]
    fn flows_are_compared_with_themselves_on_the_same_path() {
        let flow = |sent_segments| FlowCounts { sent_segments, ..FlowCounts::default() };
        let before = [(1, (0, flow(10))), (2, (0, flow(20))), (3, (1, flow(30)))];
        // One has ended, one has come, and one is on another path now.
        let now = [(1, (0, flow(11))), (3, (0, flow(33))), (4, (1, flow(44)))];
        let pairs = pairs(&before.into(), &now.into());
        assert_eq!(pairs, [(0, vec![(flow(10), flow(11))])].into());
    }

    #[test]
    fn flows_that_could_not_be_read_once_are_read_again() {
        let targets = two_paths();
        let board = Board::new(&[], targets, Store::new(&[], &two_paths()), Vec::new());
        let (give, given) = mpsc::channel();
        let mut packets = Packets {
            read: Box::new(move || given.try_recv().expect("it is given")),
            attempts: Attempts::new(),
            interval: Duration::from_secs(30),
            looked_at: None,
            flows: [(1, (0, FlowCounts::default()))].into(),
        };
        let start = Instant::now();
        let mut see = |after_s| {
            packets.see(&board, Now { awake: start + Duration::from_secs(after_s), ..Now::read() });
            packets.flows.len()
        };
        give.send(Err(ReadError::UnknownPath(String::new()))).unwrap();
        // What was seen before is compared with what is seen next, and not at once.
        assert_eq!([see(0), see(0)], [1, 1]);
        give.send(Ok(Vec::new())).unwrap();
        // The others wait for the next look.
        assert_eq!([see(1), see(2), see(30)], [0, 0, 0]);
    }

    #[test]
    fn what_is_not_known_is_nothing() {
        let instruments = [(name::MIN_RTT, Some(40_000.0)), (name::SMOOTHED_RTT, None)];
        let instruments = instruments.into_iter().collect();
        let flow = Flow { instruments, ..wad_instruments::testing::flow(1, 1.0, 1.0) };
        assert_eq!(counts(&flow), FlowCounts { min_rtt_us: 40_000, ..FlowCounts::default() });
    }
}
