//! The answers to questions are made of what the kernel counts, and of what the agent
//! knows beside it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Instant, SystemTime},
};

use wad_common::policy::Policy;
use wad_linux::{own_process::Usage, sockstat};
use wad_observing::{
    metrics::{PathNow, Readings, Source},
    reading,
};
use wad_toolbox::{mutex::locked, shortage, shown};

use super::{Agent, running::Running};
use crate::{api::Api, explainer::Explainer, measured::Board, paths, status::About};

/// Returns the state of a path as its policy has it.
fn now((name, policy): (Arc<str>, Policy)) -> (Arc<str>, PathNow) {
    let given = |bytes: u32| (bytes > 0).then(|| bytes.into());
    let now = PathNow {
        sndbuf_bytes: given(policy.sndbuf_bytes),
        rcvbuf_bytes: given(policy.rcvbuf_bytes),
        congestion: shown::text(&policy.congestion),
        ..PathNow::default()
    };
    (name, now)
}

/// Shares what is told with whoever answers, for as long as they do.
pub fn api(agent: &Agent<'_>, running: &Running<'_>, max_paths: usize) -> Api {
    let max_paths = Arc::new(AtomicUsize::new(max_paths));
    let of_readings = Arc::clone(&max_paths);
    let Running { told, board, live, force, delays, .. } = running;
    let routes = force.host.standing.clone();
    let namespaces = force.host.in_namespaces.clone();
    let (told, live) = (Arc::clone(told), Arc::clone(live));
    let tuning = Arc::clone(force.tuning());
    let in_force = Arc::clone(&tuning);
    let memory = Arc::clone(&force.buffers.told);
    let skipped = Arc::clone(&force.skipped);
    let attachment = Arc::clone(&force.links.told);
    let attached = Arc::clone(&attachment);
    let sets = running.sets.told();
    let learned = running.learning.told();
    let pods = Arc::clone(&force.pods.told);
    let delays = Arc::clone(delays);
    let (ends, of_path) = (running.hearing.ends.clone(), running.hearing.ends.clone());
    let (counted, sinks) = (routes.clone(), agent.sinks.board());
    let (traces, exports) = (running.traces.board(), running.exporter.board());
    let completing = Arc::clone(&live);
    let gate = running.gate.clone();
    let (peers, experiments) = (running.peers.desk(), agent.experiments.clone());
    let guards = agent.guards.clone();
    let (of_paths, board, known) = (Arc::clone(&tuning), Arc::clone(board), Arc::clone(board));
    let read = |board: &Mutex<Board>| locked(board).clone();
    Api {
        about: About {
            instance: agent.options.instance.name().to_owned(),
            config: agent.options.config.clone(),
            cgroup: agent.cgroup.path.clone(),
            started: Instant::now(),
            started_at: SystemTime::now(),
            privileges: agent.privileges,
        },
        max_paths,
        attachment,
        source: Source::new(move || {
            let told = locked(&told);
            let mut readings = Readings::from(tuning.readings()?);
            readings.changes.clone_from(&told.changes);
            readings.too_low.clone_from(&told.too_low);
            readings.reloads = told.reloads;
            drop(told);
            readings.routes = counted.counts();
            readings.shortages = shortage::counts();
            readings.process = Usage::now();
            readings.delays = *locked(&delays);
            readings.attachment = locked(&attached).clone();
            readings.memory = *locked(&memory);
            readings.memory.held_bytes = sockstat::tcp_held_bytes()?;
            readings.skipped = *locked(&skipped);
            readings.pods.clone_from(&locked(&pods));
            completing.complete(&mut readings);
            readings.now = tuning
                .first_policies(of_readings.load(Ordering::Relaxed))?
                .into_iter()
                .map(now)
                .collect();
            read(&board).read(&mut readings);
            sinks.read(&mut readings);
            traces.read(&mut readings);
            exports.read(&mut readings);
            readings.page = gate.reading();
            peers.read(&mut readings);
            experiments.read(&mut readings);
            guards.read(&mut readings);
            readings.counting_since = tuning.counting_since();
            readings.sets.clone_from(&locked(&sets));
            Ok(readings)
        }),
        paths: paths::Source::new(move || {
            let policies = of_paths.policies()?;
            let (board, learned) = (read(&known), locked(&learned));
            let known = (&board, &learned[..]);
            Ok(paths::Paths::new(&policies, known, SystemTime::now()).with_peers(&ends))
        }),
        explainer: Explainer::new(move |query| {
            let answer = in_force.explain(query)?.with_means(&routes.get());
            Ok(answer.in_namespaces(&namespaces).because(|peers| of_path.words(peers)))
        }),
        flows: reading::Source::new(move |filter| live.read(filter)),
        probes: running.probes.desk(),
        peers: running.peers.desk(),
        ends: running.hearing.ends.clone(),
        recent: Arc::clone(agent.sinks.recent()),
        experiments: agent.experiments.clone(),
        guards: agent.guards.clone(),
    }
}
