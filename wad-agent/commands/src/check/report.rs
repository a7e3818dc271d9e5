//! `wad check --json`: all that the page shows, and what it cuts off.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;
use wad_policy::{
    config::{InForce, Mistake, OnExit, PathPolicy, Settings, Value},
    shares::{Filling, LOSSES, Shares},
    switch::Disabled,
};
use wad_tuning::{
    explain::{Offline, RuleSet as _},
    instance::Instance,
    readings::PathState,
};

use super::{Ceiling, Page, derived, guards, host, memory::Memory, shares};

/// A report says whether a configuration is taken, and what comes of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    file: PathBuf,
    /// The files of the folder conf.d beside it, in the order in which they are read.
    fragments: Vec<String>,
    /// The number of errors; those beyond the first thousand are only counted.
    error_count: usize,
    /// The errors, in the order of the file.
    errors: Vec<Mistake>,
    /// The effect of `wad run`; null where there are errors.
    effect: Option<Effect>,
}

/// The effect of a configuration without errors.
#[derive(Debug, Serialize, JsonSchema)]
struct Effect {
    /// The paths, in the order of the file.
    paths: Vec<CheckedPath>,
    /// The kernel's ceilings on buffers, which are raised where they are too low.
    ceilings: Vec<Ceiling>,
    memory: Memory,
    /// Kernel modules that are loaded at the start.
    modules: Vec<String>,
    /// Other changes of the host, a sentence each.
    host: Vec<String>,
    /// The paths that have a guard, in the order of the file.
    guarded: Vec<String>,
    /// Tuning stays in the kernel when the agent ends.
    stays_at_exit: bool,
    sinks: Vec<CheckedSink>,
    traces: Vec<CheckedTrace>,
    /// The tasks of probes; null where there is no service of them.
    probe: Option<CheckedProbe>,
    /// The URL that metrics are exported to by OTLP, if they are.
    otlp: Option<String>,
    /// Where the page for browsers is; null where there is none.
    page: Option<String>,
    derived: Vec<CheckedDerived>,
    /// The lists of prefixes that paths name, and what follows from those, a sentence each.
    sets: Vec<String>,
    /// Other things to be known of paths, a sentence each.
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckedPath {
    name: String,
    remote: Vec<String>,
    state: PathState,
    /// The settings of its flows, by the names of `wad explain`; one that is not there is
    /// left to the kernel.
    #[schemars(with = "BTreeMap<String, Value>")]
    settings: Settings,
    /// The part that they take beside CUBIC's; null where losses are no measure.
    share: Option<Share>,
}

/// The rate of a flow over that of a CUBIC flow (RFC 9438), at the same losses and RTT.
#[derive(Debug, Serialize, JsonSchema)]
struct Share {
    /// Whether the most is more than a CUBIC flow's share.
    exceeds_fair: bool,
    /// The most that it takes, and the loss rate at which it does.
    most: ShareAt,
    /// Whether the RTT is known. If not, CUBIC counts with the least that it takes at any RTT.
    rtt_known: bool,
    at: Vec<ShareAt>,
    /// Where it, or CUBIC in its place, fills the path; null where that is not known.
    filling: Option<ShareAt>,
    /// It fills the path at any of these losses.
    always_fills: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShareAt {
    /// The part of packets that are lost.
    loss: f64,
    /// The share; null where the flow takes what there is.
    share: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckedSink {
    name: String,
    kind: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckedTrace {
    name: String,
    file: PathBuf,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckedProbe {
    tasks: Vec<String>,
    /// The most that all tasks together send and receive in a day.
    max_bytes_per_day: u64,
    /// Where probes of other hosts are answered; null where they are not.
    answer: Option<SocketAddr>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckedDerived {
    name: String,
    /// The expression, its unit and its threshold, in words.
    about: Vec<String>,
}

impl Report {
    pub(super) fn refused(
        file: &Path,
        fragments: &[String],
        (error_count, mistakes): (usize, &[Mistake]),
    ) -> Self {
        let (file, fragments) = (file.to_owned(), fragments.to_vec());
        Self { file, fragments, error_count, errors: mistakes.to_vec(), effect: None }
    }

    pub(super) fn of(page: &Page<'_>) -> Self {
        let Page { file, config, ceilings, memory, .. } = page;
        let sinks = config.sinks.iter();
        let mut notes = shares::modelled(&config.paths, usize::MAX);
        notes.extend(page.notes());
        let effect = Effect {
            paths: paths(&config.paths),
            ceilings: ceilings.clone(),
            memory: memory.clone(),
            modules: page.loaded_at_start(),
            host: host::changes(config),
            guarded: guards::guarded(config),
            stays_at_exit: config.agent.on_exit == OnExit::Keep,
            sinks: sinks
                .map(|sink| CheckedSink { name: sink.name.clone(), kind: sink.kind.name() })
                .collect(),
            traces: config
                .traces
                .iter()
                .map(|trace| CheckedTrace { name: trace.name.clone(), file: trace.file.clone() })
                .collect(),
            probe: config.probe.as_ref().map(|probe| CheckedProbe {
                tasks: probe.tasks.iter().map(|task| task.name.clone()).collect(),
                max_bytes_per_day: probe.bytes_per_day(),
                answer: probe.answer.as_ref().map(|answer| answer.address),
            }),
            otlp: config.otlp.as_ref().map(|otlp| otlp.url.to_string()),
            page: config.page.as_ref().map(|page| page.listen.to_string()),
            derived: config
                .derived
                .0
                .iter()
                .map(|it| CheckedDerived { name: it.name.clone(), about: derived::of(it) })
                .collect(),
            sets: page.sets.clone(),
            notes,
        };
        let (file, fragments) = (file.to_path_buf(), page.fragments.clone());
        Self { file, fragments, error_count: 0, errors: Vec::new(), effect: Some(effect) }
    }
}

fn paths(paths: &[PathPolicy]) -> Vec<CheckedPath> {
    let offline = Offline::new(paths, &Instance::default(), &Disabled::default());
    let checked = |(index, path): (u32, &PathPolicy)| {
        let Ok(known) = offline.policy(index);
        let in_force = InForce { policy: &known.policy, origin: &known.origin };
        CheckedPath {
            name: path.name.clone(),
            remote: path.remote.iter().map(ToString::to_string).collect(),
            state: known.state,
            settings: Settings::explained(in_force),
            share: path.shares().map(|shares| share(&shares)),
        }
    };
    (0..).zip(paths).map(checked).collect()
}

fn share(shares: &Shares) -> Share {
    let at = |loss, share: f64| ShareAt { loss, share: share.is_finite().then_some(share) };
    let known = LOSSES.into_iter().zip(shares.at);
    Share {
        exceeds_fair: shares.exceed_fair(),
        most: at(shares.most.loss, shares.most.share),
        rtt_known: shares.is_rtt_known,
        at: known.filter_map(|(loss, share)| Some(at(loss, share?))).collect(),
        filling: match shares.filling {
            Filling::At(filling) => Some(at(filling.loss, filling.share)),
            Filling::Unknown | Filling::Always => None,
        },
        always_fills: shares.filling == Filling::Always,
    }
}
