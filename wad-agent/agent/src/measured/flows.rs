//! The flows of the paths as a source of what those carry.

use std::{
    collections::HashMap,
    time::{Instant, SystemTime},
};

use tracing::warn;
use wad_common::progress::Progress;
use wad_policy::config::{Source, SourceKind};
use wad_tuning::bpf::{ProgressReader, Tuning};

use super::Board;
use crate::sources::{Answer, Passive, Shown, seconds_since_1970};

/// The source of kind "passive".
pub struct Flows {
    /// The source's place in the order of the file.
    source: usize,
    passive: Passive,
    /// The reader of flows; None where flows that run cannot be read.
    reader: Option<ProgressReader>,
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
        Some(Self { source, passive, reader: reader.ok() })
    }

    /// Takes in what flows that have ended show, and those that run, if it is time.
    /// `name` has the names of paths by their policies' indices.
    pub fn see<'n>(
        &mut self,
        board: &Board,
        ended: HashMap<u32, Shown>,
        name: impl Fn(u32) -> Option<&'n str>,
        (now, time): (Instant, SystemTime),
    ) {
        let target = |policy| name(policy).and_then(|name| board.targets.named(name));
        let running = if self.passive.is_due(now) {
            let mut flows = self.read();
            flows.retain(|flow| target(flow.policy).is_some());
            self.passive.look(flows, now)
        } else {
            HashMap::new()
        };
        let now_seconds = seconds_since_1970(time);
        let mut store = board.store();
        let mut answer = Answer::default();
        for (policy, shown) in ended.into_iter().chain(running) {
            let Some(target) = target(policy) else { continue };
            let known = |metric| store.sample(self.source, target, metric);
            answer.readings.extend(self.passive.take(target, shown, now_seconds, known));
        }
        if !answer.readings.is_empty() {
            store.record(self.source, Ok(answer), time);
        }
    }

    /// Reads the flows that run. Where that fails once, it is not tried again.
    fn read(&mut self) -> Vec<Progress> {
        let Some(reader) = &self.reader else { return Vec::new() };
        match reader.read().map_err(anyhow::Error::from) {
            Ok(flows) => flows,
            Err(error) => {
                warn!("flows show what their path carries only when they end: {error:#}");
                self.reader = None;
                Vec::new()
            }
        }
    }
}
