//! A task for each source that is asked, as long as it lives.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use tokio::{task::JoinSet, time::sleep};
use tracing::{info, warn};
use wad_http::{Client, Terms};
use wad_policy::config::{Service, Source, SourceKind};
use wad_probing::answers::OwnProbes;
use wad_toolbox::{chance::chance, mutex::locked, shortage};

use super::{
    Answer, SourceError, Targets, archive, document, probe, prometheus, pscheduler,
    store::{News, Store},
};

/// Longest wait after failures, if the interval is not longer.
const MAX_BACK_OFF: Duration = Duration::from_secs(300);

/// Part of a wait that is up to chance, so that hosts do not ask all at once.
const JITTER: f64 = 0.1;

/// The tasks; they end with it.
#[derive(Debug, Default)]
pub struct Polling {
    _tasks: JoinSet<()>,
}

impl Polling {
    /// Needs a tokio runtime.
    pub fn start(
        sources: &[Source],
        targets: &Arc<Targets>,
        store: &Arc<Mutex<Store>>,
        own: &OwnProbes,
    ) -> Self {
        let mut tasks = JoinSet::new();
        // There is nobody to ask of what flows show.
        let is_asked = |source: &Source| source.kind != SourceKind::Passive;
        for (index, source) in sources.iter().enumerate().filter(|(_, it)| is_asked(it)) {
            let (source, targets) = (source.clone(), Arc::clone(targets));
            let known = Known::of(own);
            tasks.spawn(poll_on(index, (source, known), targets, Arc::clone(store)));
        }
        Self { _tasks: tasks }
    }
}

/// Holds what is known from one poll of a source to the next.
#[derive(Default)]
pub struct Known {
    hosts: pscheduler::Known,
    told: probe::Told,
    own: OwnProbes,
}

impl Known {
    fn of(own: &OwnProbes) -> Self {
        Self { own: own.clone(), ..Self::default() }
    }
}

async fn poll_on(
    index: usize,
    (source, mut known): (Source, Known),
    targets: Arc<Targets>,
    store: Arc<Mutex<Store>>,
) {
    // Agents that start together, as after a power cut, do not ask together.
    sleep(source.interval.min(Duration::from_secs(1)).mul_f64(chance())).await;
    let mut failures = 0;
    loop {
        let result = poll(&source, &targets, &mut known).await;
        if let Err(error) = &result {
            shortage::note(error);
        }
        failures = if result.is_ok() { 0 } else { failures + 1 };
        let news = {
            let mut store = locked(&store);
            store.record(index, result, SystemTime::now())
        };
        let name = source.name.as_str();
        match news {
            Some(News::Failing(text)) => {
                let url = source.url.as_ref().map(ToString::to_string);
                warn!(source = name, url, "{text}");
            }
            Some(News::Well) => info!(source = name, "answers as it should again"),
            None => {}
        }
        sleep(wait(source.interval, failures).mul_f64(1.0 - JITTER * chance())).await;
    }
}

/// Asks the source one round of questions.
pub async fn poll(
    source: &Source,
    targets: &Targets,
    known: &mut Known,
) -> Result<Answer, SourceError> {
    let Some(url) = &source.url else {
        return match source.kind {
            SourceKind::Probe => probe::poll_own(known.own.get(), targets, &mut known.told).await,
            _ => Ok(Answer::default()),
        };
    };
    let client = Client::new(terms(source), url)?;
    match &source.kind {
        SourceKind::Prometheus(queries) => prometheus::poll(&client, queries, targets).await,
        SourceKind::PerfSonar(perfsonar) => match perfsonar.service {
            Service::PScheduler => {
                pscheduler::poll(&client, source, perfsonar, targets, &mut known.hosts).await
            }
            Service::Archive => archive::poll(&client, source, perfsonar, targets).await,
        },
        SourceKind::Http => document::poll(&client, targets).await,
        SourceKind::Probe => probe::poll(&client, targets, &mut known.told).await,
        SourceKind::Passive => Ok(Answer::default()),
    }
}

/// Returns what the file says of a source's requests.
fn terms(source: &Source) -> Terms<'_> {
    Terms {
        access: &source.access,
        timeout: source.timeout,
        max_response_bytes: source.max_response_bytes,
    }
}

/// Twice as long with each failure in a row.
fn wait(interval: Duration, failures: u32) -> Duration {
    let doubled = interval.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    doubled.min(MAX_BACK_OFF.max(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound() {
        let seconds = |interval, failures| wait(Duration::from_secs(interval), failures).as_secs();
        assert_eq!([0, 1, 2, 3, 4, 99].map(|n| seconds(30, n)), [30, 60, 120, 240, 300, 300]);
        assert_eq!([0, 1, 40].map(|n| seconds(3600, n)), [3600; 3]);
    }
}
