//! The flows of the paths as a source of what those carry.

use std::{collections::HashMap, time::Instant};

use tracing::warn;
use wad_common::progress::Progress;
use wad_policy::config::{Source, SourceKind};
use wad_toolbox::attempts::Attempts;
use wad_tuning::bpf::{ProgressReader, Tuning, TuningError};

use super::{Board, Now, looks};
use crate::sources::{Answer, Passive, Shown, seconds_since_1970};

/// Reads the flows that run.
type Reader = Box<dyn Fn() -> Result<Vec<Progress>, TuningError> + Send>;

/// The source of kind "passive".
pub struct Flows {
    /// The source's place in the order of the file.
    source: usize,
    passive: Passive,
    /// The reader of flows; None where this kernel does not let flows that run be read.
    reader: Option<Reader>,
    attempts: Attempts,
}

impl Flows {
    /// Returns the source; None where no source is of that kind.
    pub fn of(sources: &[Source], tuning: &Tuning) -> Option<Self> {
        let is_passive = |source: &Source| source.kind == SourceKind::Passive;
        let source = sources.iter().position(is_passive)?;
        let reader = tuning.progress_reader().map_err(anyhow::Error::from);
        let reader = reader.inspect_err(|error| {
            warn!("flows show what their path carries only when they end: {error:#}");
        });
        let passive = Passive::new(&sources[source]);
        let reader = reader.ok().map(reading);
        Some(Self { source, passive, reader, attempts: Attempts::new() })
    }

    /// Takes in what flows that have ended show, and those that run, if it is time.
    /// `name` has the names of paths by their policies' indices.
    pub fn see<'n>(
        &mut self,
        board: &Board,
        ended: HashMap<u32, Shown>,
        name: impl Fn(u32) -> Option<&'n str>,
        now: Now,
    ) {
        let target = |policy| name(policy).and_then(|name| board.targets.named(name));
        let running = self.read(now.awake).map(|mut flows| {
            flows.retain(|flow| target(flow.policy).is_some());
            self.passive.look(flows, now.awake)
        });
        let now_seconds = seconds_since_1970(now.time);
        let mut store = board.store();
        let mut answer = Answer::default();
        for (policy, shown) in ended.into_iter().chain(running.unwrap_or_default()) {
            let Some(target) = target(policy) else { continue };
            let known = |metric| store.sample(self.source, target, metric);
            answer.readings.extend(self.passive.take(target, shown, now_seconds, known));
        }
        if !answer.readings.is_empty() {
            store.record(self.source, Ok(answer), now.time);
        }
    }

    /// Reads the flows that run, if it is time. The next look goes on from the one before a
    /// failure.
    fn read(&mut self, now: Instant) -> Option<Vec<Progress>> {
        let reader = self.reader.as_ref()?;
        if !self.passive.is_due(now) || !self.attempts.is_due(now) {
            return None;
        }
        let words = (
            "flows that run show again what their path carries",
            "flows show what their path carries only when they end, until those that run can be \
             read again",
        );
        looks::seen(&mut self.attempts, reader(), now, words)
    }
}

fn reading(reader: ProgressReader) -> Reader {
    Box::new(move || reader.read())
}

#[cfg(test)]
mod tests {
    use std::{io, sync::mpsc, time::Duration};

    use wad_policy::config::Metric;

    use super::*;
    use crate::sources::{Store, testing::two_paths};

    #[test]
    fn flows_that_could_not_be_read_once_are_read_again() {
        let sources = [Source::passive()];
        let targets = two_paths();
        let store = Store::new(&sources, &targets);
        let board = Board::new(&sources, targets, store, Vec::new());
        let (give, given) = mpsc::channel::<io::Result<_>>();
        let mut flows = Flows {
            source: 0,
            passive: Passive::new(&sources[0]),
            reader: Some(Box::new(move || {
                given.try_recv().expect("it is given").map_err(TuningError::Running)
            })),
            attempts: Attempts::new(),
        };
        let start = Instant::now();
        let mut see = |after_s| {
            let now = Now { awake: start + Duration::from_secs(after_s), ..Now::read() };
            flows.see(&board, HashMap::new(), |_| Some("a"), now);
        };
        let flow = |bytes_acked| Progress { cookie: 7, bytes_acked, ..Progress::default() };
        give.send(Ok(vec![flow(0)])).unwrap();
        see(0);
        give.send(Err(io::ErrorKind::OutOfMemory.into())).unwrap();
        see(60);
        // Not at once.
        see(60);
        give.send(Ok(vec![flow(15_000_000)])).unwrap();
        see(120);
        // All that was carried since the look that did not fail.
        let sample = board.store().sample(0, 0, Metric::Bandwidth).expect("it is shown");
        assert_eq!(sample.value, 1e6);
    }
}
