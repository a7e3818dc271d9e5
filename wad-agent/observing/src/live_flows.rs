//! The flows that run give this beside their instruments: counts of their paths that
//! advance while they run, and derived events.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use wad_instruments::{Flow, Reading, Values};
use wad_policy::{
    derived::{Crossed, Crossings, Derived, Limit, means},
    event_name::EventName,
};
use wad_toolbox::mutex::locked;

use crate::{
    events::{self, Record},
    metrics::{DerivedMeans, Ends, Live, Readings},
    reading::{Filter, Instruments, ReadError, Source},
    sinks::Sinks,
};

/// How often flows are looked at for thresholds and rates.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Least time that a rate is over: within less, a flow sends by bursts.
const RATE_TIME: Duration = Duration::from_millis(500);
/// Events of one look that get a line of the log; the rest is a number.
const LINES_PER_LOOK: usize = 20;

/// Shared by who looks and who answers.
pub struct LiveFlows {
    instruments: Arc<Instruments>,
    sinks: Arc<Sinks>,
    ends: Ends,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    derived: Arc<Derived>,
    counts: Live,
    crossings: Crossings,
    /// The latest, and the one before.
    looks: [Option<Look>; 2],
    /// The reading has failed: that flows cannot be read is told once.
    has_failed: bool,
}

/// Holds what flows had at one time, by their cookies.
struct Look {
    time: Timestamp,
    values: HashMap<u64, Values>,
}

impl LiveFlows {
    /// Tells events to `sinks`, and counts what `ends` says of flows that have ended.
    pub fn new(
        instruments: Arc<Instruments>,
        sinks: Arc<Sinks>,
        ends: Ends,
        derived: Derived,
    ) -> Self {
        let live = Self { instruments, sinks, ends, state: Mutex::default() };
        live.set(derived);
        live
    }

    /// Puts the derived events of another configuration in force.
    pub fn set(&self, derived: Derived) {
        let fields = derived.fields();
        if !fields.is_empty()
            && let Err(error) = self.instruments.read_only(Vec::new(), fields)
        {
            warn!("derived events of such fields have no value: {error}");
        }
        let mut state = self.state();
        if *state.derived != derived {
            state.derived = Arc::new(derived);
            (state.crossings, state.looks) = (Crossings::default(), [None, None]);
        }
    }

    /// Forgets what flows of paths carried that are not in force any more.
    pub fn keep_only(&self, in_force: impl Fn(&str) -> bool) {
        self.state().counts.keep_only(in_force);
    }

    /// The flows that a filter lets through, with the derived values.
    pub fn read(&self, filter: &Filter) -> Result<Reading, ReadError> {
        self.read_by(|filter| self.instruments.read(filter), filter)
    }

    /// Returns a source of the same that is whoever's alone that reads again and again.
    pub fn source(self: &Arc<Self>) -> Source {
        let (live, instruments) = (Arc::clone(self), self.instruments.another());
        Source::new(move |filter| live.read_by(|filter| instruments.read(filter), filter))
    }

    fn read_by(
        &self,
        read: impl Fn(&Filter) -> Result<Reading, ReadError>,
        filter: &Filter,
    ) -> Result<Reading, ReadError> {
        let derived = Arc::clone(&self.state().derived);
        // Whoever asks for one by its name gets it as all others do.
        let mut filter = filter.clone();
        filter.fields.retain(|field| !derived.has(field));
        let mut more = derived.fields();
        more.retain(|field| !filter.fields.contains(field));
        let mut reading = with_or_without(&more, |more| {
            let fields = filter.fields.iter().chain(more).cloned().collect();
            read(&Filter { fields, ..filter.clone() })
        })?;
        self.state().extend(&mut reading);
        Ok(reading)
    }

    /// Adds what flows show to a scrape.
    pub fn complete(&self, readings: &mut Readings) {
        readings.ended = self.ends.get();
        let with_pods = readings.pods.as_ref().is_some_and(|pods| pods.known > 0);
        let read = |filter: &Filter| {
            if with_pods {
                self.instruments.read_with_places(filter)
            } else {
                self.instruments.read_without_owners(filter)
            }
        };
        let reading = self.read_by(read, &Filter::default());
        let mut state = self.state();
        match reading {
            Ok(reading) => {
                readings.limited = state.counts.add(&reading, &mut readings.paths);
                if let Some(pods) = &mut readings.pods {
                    pods.flows = by_namespace(&reading.flows);
                }
                let derived = &state.derived;
                let names = derived.metrics().map(|metric| metric.name.clone()).collect();
                readings.derived = DerivedMeans { names, means: means(derived, &reading) };
            }
            Err(error) => {
                readings.limited = state.counts.keep(&mut readings.paths);
                state.fail(&error);
            }
        }
    }

    /// Looks at the flows for thresholds and rates, for ever.
    pub async fn watch(self: Arc<Self>) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if self.state().derived.are_watched() {
                let live = Arc::clone(&self);
                // It fails only as the runtime ends.
                let _ = tokio::task::spawn_blocking(move || live.look()).await;
            }
        }
    }

    fn look(&self) {
        let derived = Arc::clone(&self.state().derived);
        let reading = with_or_without(&derived.fields(), |fields| {
            self.instruments.read_only(derived.instruments(), fields.to_vec())
        });
        let mut state = self.state();
        match reading {
            Ok(mut reading) => {
                state.extend(&mut reading);
                let news = state.crossings.look(&derived, &reading);
                log(&news, reading.time);
                for crossed in &news {
                    self.sinks.tell(&record(crossed, reading.time));
                }
                let values = reading.flows.into_iter().map(|flow| (flow.cookie, flow.instruments));
                let look = Look { time: reading.time, values: values.collect() };
                state.looks[1] = state.looks[0].replace(look);
            }
            Err(error) => state.fail(&error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// Counts flows by the namespaces of their pods, of those that are of one.
fn by_namespace(flows: &[Flow]) -> BTreeMap<Arc<str>, u64> {
    let mut counts = BTreeMap::new();
    for namespace in flows.iter().filter_map(|flow| flow.owner.place.names.namespace.as_ref()) {
        *counts.entry(Arc::clone(namespace)).or_default() += 1;
    }
    counts
}

/// A reading with these fields; without them where this kernel lacks one.
fn with_or_without(
    fields: &[String],
    read: impl Fn(&[String]) -> Result<Reading, ReadError>,
) -> Result<Reading, ReadError> {
    match read(fields) {
        Err(error) if error.is_of_question() => read(&[]),
        reading => reading,
    }
}

impl State {
    fn extend(&self, reading: &mut Reading) {
        let is_long_ago =
            |look: &&Look| reading.time.duration_since(look.time).unsigned_abs() >= RATE_TIME;
        let before = self.looks.iter().flatten().find(is_long_ago);
        self.derived.extend(&mut reading.flows, |cookie| before?.values.get(&cookie));
    }

    fn fail(&mut self, error: &ReadError) {
        if !std::mem::replace(&mut self.has_failed, true) {
            warn!(
                "counts of paths advance only as flows end, and derived events are none: {error}"
            );
        }
    }
}

/// The values of a record.
#[derive(Serialize)]
struct DerivedValues<'a> {
    name: &'a str,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    #[serde(flatten)]
    limit: Limit,
    /// The time for which it has been beyond the limit.
    seconds: f64,
}

fn record<'a>(crossed: &Crossed<'a>, now: Timestamp) -> Record<'a, DerivedValues<'a>> {
    let Crossed { flow, definition, value, limit, since } = *crossed;
    Record {
        time: now,
        event: EventName::Derived,
        ends: Some(events::Ends { local: flow.local, remote: flow.remote }),
        cookie: Some(flow.cookie),
        path: &flow.path,
        values: DerivedValues {
            name: &definition.name,
            value,
            unit: definition.unit.as_deref(),
            limit,
            seconds: now.duration_since(since).as_secs_f64(),
        },
    }
}

fn log(news: &[Crossed<'_>], now: Timestamp) {
    for Crossed { flow, definition, value, limit, since } in news.iter().take(LINES_PER_LOOK) {
        let (side, limit) = match limit {
            Limit::Above(limit) => ("above", limit),
            Limit::Below(limit) => ("below", limit),
        };
        info!(
            path = &*flow.path,
            remote = %flow.remote,
            local = %flow.local,
            name = definition.name,
            value,
            unit = definition.unit.as_deref().unwrap_or_default(),
            side,
            limit,
            seconds = now.duration_since(*since).as_secs_f64(),
            "derived event"
        );
    }
    if news.len() > LINES_PER_LOOK {
        info!(events = news.len() - LINES_PER_LOOK, "more derived events than the log shows");
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use wad_policy::derived::{Definition, testing::flow};

    use super::*;
    use crate::events::record::testing::teller;

    #[test]
    fn a_line_is_as_the_reference_has_it() {
        let value = "8 * HCDataOctetsOut / ElapsedSecs";
        let mut definition = Definition::parse("AveBW", value, &Derived::default()).unwrap();
        definition.unit = Some("bit/s".to_owned());
        let (flow, since) = (flow(&[]), Timestamp::UNIX_EPOCH);
        for limit in [Limit::Above(1e9), Limit::Below(2e9)] {
            let crossed =
                Crossed { flow: &flow, definition: &definition, value: 1.5e9, limit, since };
            let record = record(&crossed, since + SignedDuration::from_secs(10));
            let line = String::from_utf8(record.line(&teller(), 0).unwrap()).unwrap();
            let golden = include_str!("events/testdata/lines.jsonl");
            assert!(golden.lines().any(|golden| golden == line.trim_end()), "{line}");
        }
    }
}
