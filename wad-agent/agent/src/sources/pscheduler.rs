//! A pScheduler server of perfSONAR, asked for results themselves: which of its
//! tasks measure a path, which runs these had lately, and what the last one found
//! (API level 6).
//!
//! The URLs in its answers name the host as it sees itself. Only their last part,
//! an id, is used: a proxy or a tunnel may stand between.

mod hosts;
mod task;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};
use wad_http::{Client, encoded, shown};
use wad_policy::config::{Metric, PerfSonar, Source};
use wad_probing::pscheduler::{Id, Run, RunOutcome, Test, values};

#[cfg(feature = "fuzz")]
use self::hosts::Hosts;
pub use self::hosts::Known;
use self::task::{Chosen, Task, choose};
use super::{
    Answer, ErrorKind, Reading, Sample, SourceError, Targets, error::is_possible, side_by_side,
};

/// Runs of a task that are looked at, from the last one back: it may be under
/// way, and some fail.
const MOST_RUNS: usize = 5;

/// Asks for the tasks, and then for the last runs of those that measure a path.
pub async fn poll(
    client: &Client<'_>,
    source: &Source,
    perfsonar: &PerfSonar,
    targets: &Targets,
    known: &mut Known,
) -> Result<Answer, SourceError> {
    let mut poll = Poll::new(client, targets);
    let mut tasks = Vec::new();
    for test in Test::ALL {
        tasks.extend(poll.tasks(test, client.host()).await?);
    }
    let from = &perfsonar.from;
    let named = task::hosts(&tasks, from, targets);
    let hosts = known.look_up(named, source.timeout, &mut poll.errors).await;
    let chosen = choose(&tasks, from, targets, &hosts);
    if tasks.is_empty() && poll.errors.is_empty() {
        poll.errors.push(SourceError::Empty { query: "tasks" });
    } else if chosen.is_empty() && !tasks.is_empty() {
        let (query, label) = ("tasks", "dest".to_owned());
        poll.errors.push(SourceError::Unmatched { query, label });
    }
    poll.take_all(&chosen, &span(SystemTime::now(), source)).await?;
    Ok(poll.answer())
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(body: &[u8]) {
    let (client, (_, targets)) = (super::fuzz::client(0), super::fuzz::configured());
    let raws = serde_json::from_slice::<Vec<Box<RawValue>>>(body).unwrap_or_default();
    let read = |test| raws.iter().filter_map(move |raw| Task::read(test, raw.get(), "a").ok());
    let tasks: Vec<_> = Test::ALL.into_iter().flat_map(read).collect();
    let _ = choose(&tasks, &std::collections::HashSet::new(), targets, &Hosts::default());
    let _ = serde_json::from_slice::<Vec<Id>>(body);
    let Ok(run) = serde_json::from_slice::<Run>(body) else { return };
    let RunOutcome::Result { result, ended_at_seconds } = run.outcome() else { return };
    let mut poll = Poll::new(&client, targets);
    for test in Test::ALL {
        let raw = r#"{"href": "/a", "test": {"spec": {"dest": "b"}}}"#;
        let task = Task::read(test, raw, "a").expect("a task");
        poll.take(&Chosen { task: &task, targets: vec![1] }, &result, ended_at_seconds);
    }
    super::fuzz::hold(Ok(poll.answer()));
}

/// Returns the span of what is not too old, and not to come, as a query has it.
fn span(now: SystemTime, source: &Source) -> String {
    let text = |time: SystemTime| {
        let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
        format!("{time:.0}")
    };
    let start = now.checked_sub(source.stale_after).unwrap_or(SystemTime::UNIX_EPOCH);
    format!("start={}&end={}", text(start), text(now))
}

/// The outcome of asking what a task has found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// A result, or what is wrong.
    Told,
    Nothing,
    /// It did not come in time, which is wrong, too.
    TimedOut,
}

struct Poll<'a> {
    client: &'a Client<'a>,
    targets: &'a Targets,
    errors: Vec<SourceError>,
    /// The latest samples, by target.
    latest: BTreeMap<(usize, Metric), Sample>,
    /// Paths, with a kind of test whose tasks have found nothing, or something.
    silent: BTreeSet<(usize, Test)>,
    told: BTreeSet<(usize, Test)>,
}

impl<'a> Poll<'a> {
    const fn new(client: &'a Client<'a>, targets: &'a Targets) -> Self {
        Self {
            client,
            targets,
            errors: Vec::new(),
            latest: BTreeMap::new(),
            silent: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    fn answer(self) -> Answer {
        let reading = |((target, metric), sample)| Reading { target, metric, sample };
        let Self { errors, latest, .. } = self;
        Answer { readings: latest.into_iter().map(reading).collect(), errors }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, SourceError> {
        let body = self.client.get(path).await?;
        serde_json::from_slice(&body).map_err(|source| SourceError::Malformed { source })
    }

    /// Asks as `get` does, but what is wrong with this answer alone leaves the
    /// others; anything else would be met again.
    async fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
    ) -> Result<Result<T, ErrorKind>, SourceError> {
        match self.get(path).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) if error.is_of_one_answer() => {
                let kind = error.kind();
                self.errors.push(error);
                Ok(Err(kind))
            }
            Err(error) => Err(error),
        }
    }

    /// The tasks of a kind, oldest first, as far as they can be read.
    async fn tasks(&mut self, test: Test, server: &str) -> Result<Vec<Task>, SourceError> {
        let part = format!(r#"{{"test":{{"type":"{}"}}}}"#, test.name());
        let query = format!("/tasks?expanded&json={}", encoded(&part));
        let mut tasks = Vec::new();
        let mut wrong = None;
        for raw in self.get::<Vec<Box<RawValue>>>(&query).await? {
            match Task::read(test, raw.get(), server) {
                Ok(task) => tasks.push(task),
                Err(source) => wrong = Some(SourceError::Malformed { source }),
            }
        }
        self.errors.extend(wrong);
        Ok(tasks)
    }

    /// Takes what the tasks have found: those of one path, or of the same paths, one after
    /// the other.
    async fn take_all(&mut self, chosen: &[Chosen<'_>], span: &str) -> Result<(), SourceError> {
        let mut paths: BTreeMap<&[usize], Vec<&Chosen<'_>>> = BTreeMap::new();
        for one in chosen {
            paths.entry(&one.targets).or_default().push(one);
        }
        let asked = paths.into_values().map(|tasks| {
            let mut poll = Poll::new(self.client, self.targets);
            async move { poll.take_last_of(&tasks, span).await.map(|()| poll) }
        });
        for poll in side_by_side(asked.collect()).await? {
            self.merge(poll);
        }
        for (_, test) in self.silent.difference(&self.told) {
            self.errors.push(SourceError::Empty { query: test.name() });
        }
        Ok(())
    }

    async fn take_last_of(
        &mut self,
        chosen: &[&Chosen<'_>],
        span: &str,
    ) -> Result<(), SourceError> {
        for one in chosen {
            let heard = self.take_last(one, span).await?;
            let of_kind = if heard == Heard::Nothing { &mut self.silent } else { &mut self.told };
            of_kind.extend(one.targets.iter().map(|&target| (target, one.task.test)));
            // Who keeps silent about a path is not asked about it again.
            if heard == Heard::TimedOut {
                break;
            }
        }
        Ok(())
    }

    /// Takes what another has taken of other tasks.
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.silent.extend(other.silent);
        self.told.extend(other.told);
        for (key, sample) in other.latest {
            self.take_latest(key, sample);
        }
    }

    /// Takes what the last run has found that has found anything.
    async fn take_last(&mut self, chosen: &Chosen<'_>, span: &str) -> Result<Heard, SourceError> {
        let Task { test, id, dest, .. } = chosen.task;
        let runs: Vec<Id> = match self.ask(&format!("/tasks/{id}/runs?{span}")).await? {
            Ok(runs) => runs,
            Err(ErrorKind::Timeout) => return Ok(Heard::TimedOut),
            Err(_) => return Ok(Heard::Told),
        };
        let mut is_told = false;
        // In the order of their times.
        for run in runs.iter().rev().take(MOST_RUNS) {
            let run: Result<Run, _> = self.ask(&format!("/tasks/{id}/runs/{run}")).await?;
            match run.map(Run::outcome) {
                Ok(RunOutcome::UnderWay) => {}
                Ok(RunOutcome::Result { result, ended_at_seconds }) => {
                    self.take(chosen, &result, ended_at_seconds);
                    return Ok(Heard::Told);
                }
                // Of several the last one says it.
                Ok(RunOutcome::Failure { .. }) if is_told => {}
                Ok(RunOutcome::Failure { reason }) => {
                    let (query, reason) = (test.name(), shown(&reason));
                    let dest = shown(dest);
                    self.errors.push(SourceError::Failed { query, dest, reason });
                    is_told = true;
                }
                Err(ErrorKind::Timeout) => return Ok(Heard::TimedOut),
                Err(_) => is_told = true,
            }
        }
        Ok(if is_told { Heard::Told } else { Heard::Nothing })
    }

    /// Takes a sample if none is later.
    fn take_latest(&mut self, key: (usize, Metric), sample: Sample) {
        let latest = self.latest.entry(key).or_insert(sample);
        if latest.measured_at_seconds < sample.measured_at_seconds {
            *latest = sample;
        }
    }

    /// Takes a result: of several tasks the latest counts.
    fn take(&mut self, chosen: &Chosen<'_>, result: &Value, measured_at_seconds: f64) {
        let test = chosen.task.test;
        for (metric, value) in values(test, result) {
            let possible = value.number.filter(|&number| is_possible(metric, number));
            for &target in &chosen.targets {
                if let Some(value) = possible {
                    let sample = Sample { value, measured_at_seconds, is_least: false };
                    self.take_latest((target, metric), sample);
                } else {
                    let path = self.targets.names()[target].to_string();
                    let (query, value) = (test.name(), shown(&value.text));
                    self.errors.push(SourceError::Value { query, value, path });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
