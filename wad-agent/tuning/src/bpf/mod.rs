//! wad's part in the kernel: maps, the tuner on its cgroup, and the congestion
//! control, all pinned so that they outlive the agent.
//!
//! The owner of it all is [`Tuning`]: made fresh, taken over from an agent before, or
//! put in the place of what one of another build left; given a policy set; and removed
//! as a whole.

mod algorithms;
mod bring_up;
mod error;
mod event_bytes;
mod events;
mod growth;
mod health;
mod instruments;
mod iterators;
mod links;
mod maps;
mod objects;
mod offsets;
mod open_maps;
mod options;
mod pinned_maps;
mod pinned_policies;
mod pins;
mod processes;
mod programs;
mod progress;
mod records;
mod running;
mod runs;
mod saved;
mod scan;
mod set_maps;
mod sets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trial;
mod watchers;

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use bring_up::{InKernel, is_attached_to};
pub use error::TuningError;
pub use events::Events;
use growth::Growth;
pub use health::HealthReader;
pub use instruments::{InstrumentsReader, OthersReader};
use links::Links;
pub use maps::Bounds;
use maps::Maps;
use open_maps::OpenMaps;
pub use pins::{Pins, PinsError, exist};
use programs::{Loader, Refusals};
pub use progress::ProgressReader;
pub use running::BroughtAlong;
use running::Running;
use scan::Scan;
use tracing::warn;
use wad_common::{
    counter::Counter, event::Kind, growth::Holding, instruments::Members, policy::Policy,
    process::Process,
};
use wad_linux::{
    cgroup::Cgroup,
    netns::{Skipped, Which},
};
use wad_policy::{config::PathPolicy, switch::LeftAlone};
use wad_struct_ops::{self as struct_ops, KernelBtf, Registered};
use wad_toolbox::{causes::with_causes, mutex::locked};

use crate::{
    attachment::{Lost, Part},
    cgroup_bits::Groups,
    explain::{Answer, Query},
    instance::Instance,
    readings::KernelReadings,
};

type Result<T, E = TuningError> = std::result::Result<T, E>;

/// The tuning of one instance.
pub struct Tuning {
    pins: Pins,
    /// Read by whoever answers a question, written when the policy changes.
    maps: Mutex<Maps>,
    open_maps: OpenMaps,
    links: Mutex<Links>,
    /// The programs for flows that run; None where the kernel lacks what it takes.
    running: Mutex<Option<Arc<Running>>>,
    /// The programs for buffers that grow; None as above.
    growth: Option<Growth>,
    /// The scan of all that there is to be counted; None as above.
    recount: Option<Scan>,
    /// Tells of the programs of laws; None where there can be none.
    registered: Option<Registered>,
    refusals: Refusals,
}

/// Time that a connection may take to be made, from its first packet on, and still get
/// all of one policy set when that changes meanwhile: with the first SYN lost and an
/// RTT of a second. One that takes longer keeps what it has by then.
pub const HANDSHAKE: Duration = Duration::from_secs(3);

/// Says how tuning came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Fresh,
    TakenOver,
    /// Tuning was taken over from an agent of another build.
    Upgraded,
}

/// Tuning that has just been started.
pub struct Started {
    pub tuning: Tuning,
    pub how: Start,
    /// The number of the policy set that was put in force.
    pub policy_set: u64,
}

/// Holds what new tuning starts with.
pub struct Setup<'a> {
    pub instance: &'a Instance,
    pub cgroup: &'a Arc<Cgroup>,
    pub paths: &'a [PathPolicy],
    pub left_alone: &'a LeftAlone,
    /// The cgroups that there are, as far as paths depend on them.
    pub groups: Groups<'a>,
}

impl Tuning {
    /// Takes over what an agent of this build left, flows included, or brings
    /// everything into the kernel, in the place of what another build left. If that
    /// fails half-way, what was made is removed again.
    pub fn start(pins: Pins, setup: &Setup<'_>) -> Result<Started> {
        if !objects::are_embedded() {
            return Err(TuningError::NoObjects);
        }
        pins.guard()?;
        let btf = KernelBtf::read()?;
        if let Some(why) = struct_ops::unsound(&btf) {
            warn!(
                "this kernel is too old for wad's congestion controls: {why}; paths that name one \
                 keep the kernel's default, and get everything else (Linux 6.1 has what is needed)"
            );
        }
        let complete = |pins, InKernel { maps, open_maps, links, how, policy_set }| {
            let loader = Loader { maps: &open_maps, btf: &btf, cgroup_id: setup.cgroup.id };
            let refusals = Refusals::default();
            let running = refusals.note(&programs::RUNNING, Running::load(loader)).map(Arc::new);
            let growth = Growth::load(loader, &refusals);
            let recount = Scan::load(loader, &programs::RECOUNT, 0, &Members::NONE);
            let recount = refusals.note(&programs::RECOUNT, recount);
            watchers::attach_all(&pins, loader, &refusals);
            let (maps, running) = (Mutex::new(maps), Mutex::new(running));
            let mut links: Links = links;
            // What sees the ends of flows that ran already, who accepts, and congestion
            // signals has been pinned just now.
            if let Err(error) = links.hold(&pins) {
                warn!("{}", with_causes(&error.into()));
            }
            let links = Mutex::new(links);
            let registered = runs::registered(&btf);
            let tuning = Self {
                pins,
                maps,
                open_maps,
                links,
                running,
                growth,
                recount,
                registered,
                refusals,
            };
            Started { tuning, how, policy_set }
        };
        if is_attached_to(&pins, setup.cgroup) {
            let taken = bring_up::take_over(&pins, setup, &btf)?;
            return Ok(complete(pins, taken));
        }
        pins.remove_current()?;
        match bring_up::bring_up(&pins, setup, &btf) {
            Ok(made) => Ok(complete(pins, made)),
            Err(error) => {
                // The first error is the one to report. Tuning of another build
                // that is still in force stays.
                if let Err(left) = pins.remove_current() {
                    warn!("{left}");
                }
                Err(error)
            }
        }
    }

    /// Returns what the kernel side has counted.
    pub fn readings(&self) -> Result<KernelReadings> {
        let programs = runs::read(&self.pins, self.registered.as_ref());
        let refusals = self.refusals.all();
        Ok(KernelReadings { programs, refusals, ..self.maps().readings()? })
    }

    /// Returns when the kernel began to count, for this agent and for those before it; None
    /// where the pins are gone that would tell.
    pub fn counting_since(&self) -> Option<SystemTime> {
        // The file is made when the map is, and not written to.
        fs::metadata(self.pins.map("COUNTERS")).ok()?.modified().ok()
    }

    /// Puts other paths in force, whole; running flows follow at their next ACK.
    /// Returns the number of the policy set. If it fails, nothing is changed.
    pub fn change(
        &self,
        paths: &[PathPolicy],
        instance: &Instance,
        groups: Groups<'_>,
    ) -> Result<u64> {
        let mut links = self.links();
        let missing = algorithms::missing(&self.pins, instance, paths);
        let registered = if missing.is_empty() {
            Ok(())
        } else {
            KernelBtf::read()
                .map_err(TuningError::from)
                .and_then(|btf| algorithms::load(&self.open_maps, instance, &missing, &btf))
                .and_then(|laws| algorithms::register(&self.pins, None, laws))
        };
        let mut has_attached = false;
        let changed = registered.and_then(|()| {
            has_attached =
                options::attach_wanted((&self.pins, &self.open_maps), &links.cgroup.file, paths)?;
            self.maps().install(paths, instance, groups)
        });
        // What was there stays until nothing in force wants it.
        let detached = match &changed {
            Ok(_) => links.detach_options(&self.pins, paths),
            Err(_) => {
                algorithms::unregister(&self.pins, instance, &missing);
                if has_attached { links.detach_options(&self.pins, &[]) } else { Ok(()) }
            }
        };
        for error in [detached, links.hold(&self.pins)].into_iter().filter_map(Result::err) {
            warn!("{}", with_causes(&error.into()));
        }
        changed
    }

    /// Returns the names of the congestion controls that would be registered for paths.
    pub fn unregistered(&self, paths: &[PathPolicy], instance: &Instance) -> Vec<String> {
        let missing = algorithms::missing(&self.pins, instance, paths);
        missing.iter().map(|law| instance.algorithm(law.name())).collect()
    }

    /// Has new connections matched by the cgroups and pods that there are now. Returns whether
    /// some that run may fall under another path.
    pub fn follow_groups(&self, groups: Groups<'_>) -> Result<bool> {
        self.maps().follow_groups(groups)
    }

    /// Looks what is not in the kernel any more where it belongs, as others have taken it
    /// off. It may wait for whoever changes cgroups, and fails only where it cannot look.
    pub fn look(&self) -> io::Result<Vec<Lost>> {
        self.links().look(&self.pins)
    }

    /// Puts a part back where it belongs; of several, the pins come first. Flows that run
    /// keep what they have meanwhile; those that have begun meanwhile are brought along
    /// by [`Self::adopt_running`].
    pub fn put_back(&self, part: Part, instance: &Instance) -> Result<()> {
        let mut links = self.links();
        let before = links.cgroup.id;
        let mut is_back = links.put_back(part, &self.pins, instance);
        if part == Part::Pins {
            is_back = is_back.and_then(|()| self.maps().pin_again());
        }
        if links.cgroup.id != before {
            // It knows the cgroup whose flows it visits.
            let btf = KernelBtf::read()?;
            let loader = Loader { maps: &self.open_maps, btf: &btf, cgroup_id: links.cgroup.id };
            let running = self.refusals.note(&programs::RUNNING, Running::load(loader));
            *locked(&self.running) = running.map(Arc::new);
        }
        is_back
    }

    /// Tunes new flows of all paths but these; running ones under a law of ours
    /// follow at their next ACK. Returns the number of the policy set.
    pub fn switch(&self, left_alone: &LeftAlone) -> Result<u64> {
        self.maps().switch(left_alone)
    }

    /// Gives the policy of a path to this share of new flows from now on, in parts of
    /// [`wad_common::share::ALL`]: the others are left at the kernel's defaults. No flow that runs
    /// is touched, and the policy set stays the same.
    pub fn set_share(&self, path: &str, share: u32) -> Result<()> {
        self.maps().set_share(path, share)
    }

    /// Forgets what flows have saved of the capacity of their paths: the configuration may be of
    /// others now.
    pub fn forget_capacities(&self) -> Result<()> {
        saved::forget(&self.open_maps)
    }

    /// Frees the policy set before the one in force: [`HANDSHAKE`] after a change.
    pub fn retire(&self) -> Result<()> {
        self.maps().retire()
    }

    /// Returns which path the flows of a question fall under, and what they get.
    pub fn explain(&self, query: &Query) -> Result<Answer> {
        self.maps().explain(query)
    }

    /// Whether a path in force has that name.
    pub fn has_path(&self, name: &str) -> bool {
        self.maps().names.iter().any(|(known, _)| **known == *name)
    }

    /// Brings the flows that run under the policy in force, in all network
    /// namespaces: those that it has not seen, those for which it has changed, those
    /// that it does not name any more, and those whose part of divided buffers is
    /// another one. It breaks off where it is told to stop.
    pub fn adopt_running(&self, stop: &AtomicBool) -> Result<BroughtAlong> {
        let Some(running) = locked(&self.running).clone() else {
            return Ok(BroughtAlong::default());
        };
        self.bring_along(&running, Which::All, stop)
    }

    /// Brings flows along, and finds out whose those are that have come.
    fn bring_along(
        &self,
        running: &Running,
        which: Which<'_>,
        stop: &AtomicBool,
    ) -> Result<BroughtAlong> {
        let brought = running.bring_along(which, stop)?;
        if brought.adopted > 0
            && let Err(error) = self.find_holders()
        {
            warn!("whose flows are that ran already is not known: {}", with_causes(&error.into()));
        }
        Ok(brought)
    }

    /// Does so in the network namespaces only that tuned flows are in.
    pub fn divide_running(&self, stop: &AtomicBool) -> Result<BroughtAlong> {
        let running = locked(&self.running).clone();
        let (Some(running), Some(growth)) = (running, &self.growth) else {
            return self.adopt_running(stop);
        };
        let namespaces: HashSet<u64> =
            growth.holdings()?.iter().map(|flow| flow.netns.into()).collect();
        self.bring_along(&running, Which::These(&namespaces), stop)
    }

    /// Has the kernel side send no events of these kinds.
    pub fn leave_out(&self, kinds: &[Kind]) -> Result<()> {
        self.maps().leave_out(kinds)
    }

    /// Returns how many flows have come to paths that divide their buffers, or left
    /// them.
    pub fn divisions(&self) -> Result<u64> {
        self.maps().count(Counter::Divisions)
    }

    /// Returns how many flows have come to paths whose flows are looked at while they
    /// run.
    pub fn looked_at(&self) -> Result<u64> {
        self.maps().count(Counter::LookedAt)
    }

    /// Returns what the tuned flows hold, and whether they want other buffers.
    pub fn holdings(&self) -> Result<Vec<Holding>> {
        self.growth.as_ref().map_or(Ok(Vec::new()), Growth::holdings)
    }

    /// Gives the flows of these network namespaces, by inode, the buffers that they
    /// want, or are to be content with.
    pub fn grow(&self, namespaces: &HashSet<u64>) -> Result<Skipped> {
        let Some(growth) = &self.growth else { return Ok(Skipped::default()) };
        growth.visit(namespaces)
    }

    /// Holds the counts of paths against the flows that there are: what this look and the
    /// one before have both found wrong is put right. Counts of paths that are gone go
    /// when the last of their flows has.
    pub fn recount(&self) -> Result<()> {
        let Some(recount) = &self.recount else { return Ok(()) };
        let gone = self.maps().gone_paths()?;
        recount.run()?;
        if !gone.is_empty() {
            self.maps().forget(&gone)?;
        }
        Ok(())
    }

    /// Bounds the buffers of flows from now on.
    pub fn bound_buffers(&self, bounds: &Bounds) -> Result<()> {
        self.maps().bound_buffers(bounds)
    }

    /// Returns what reads how the flows get on.
    pub fn progress_reader(&self) -> Result<ProgressReader> {
        let loaded = ProgressReader::load(self.loader(&KernelBtf::read()?));
        self.refusals.watch(&programs::PROGRESS, loaded)
    }

    /// Returns what reads how the flows get on, for guards.
    pub fn health_reader(&self) -> Result<HealthReader> {
        let loaded = HealthReader::load(self.loader(&KernelBtf::read()?));
        self.refusals.watch(&programs::HEALTH, loaded)
    }

    /// Finds the processes of flows of which nobody has seen who connected or accepted.
    /// Returns those of connections on no path, by the cookies of their sockets.
    pub fn find_holders(&self) -> Result<HashMap<u64, Process>> {
        let found = processes::find_holders(self.loader(&KernelBtf::read()?));
        self.refusals.watch(&programs::HOLDERS, found)
    }

    /// Returns what reads these members of `struct tcp_sock`, of every flow.
    pub fn instruments_reader(
        &self,
        btf: &KernelBtf,
        members: &Members,
    ) -> Result<InstrumentsReader> {
        let counts_signals = self.pins.signals_link().exists();
        let loaded = InstrumentsReader::load(self.loader(btf), members, counts_signals);
        self.refusals.watch(&programs::INSTRUMENTS, loaded)
    }

    /// Returns the number of the cgroup that the tuner is on: one that was removed and made again
    /// has another.
    pub fn cgroup_id(&self) -> u64 {
        self.links().cgroup.id
    }

    /// Returns what reads the same of every connection on no path, of the cgroup that the tuner is
    /// on now.
    pub fn others_reader(&self, btf: &KernelBtf, members: &Members) -> Result<OthersReader> {
        let loaded = OthersReader::load(self.loader(btf), members);
        self.refusals.watch(&programs::OTHERS, loaded)
    }

    /// The paths in force, in the order of the file, with their policies.
    pub fn policies(&self) -> Result<Vec<(Arc<str>, Policy)>> {
        self.maps().policies(usize::MAX)
    }

    /// Returns the first so many of them.
    pub fn first_policies(&self, most: usize) -> Result<Vec<(Arc<str>, Policy)>> {
        self.maps().policies(most)
    }

    /// Names of the paths in force, by their policies' indices.
    pub fn names(&self) -> HashMap<u32, Arc<str>> {
        self.maps().names.iter().map(|(name, index)| (*index, name.clone())).collect()
    }

    /// Returns the names of the paths with these indices only.
    pub fn names_of(&self, indices: &HashSet<u32>) -> HashMap<u32, Arc<str>> {
        let maps = self.maps();
        let wanted = maps.names.iter().filter(|(_, index)| indices.contains(index));
        wanted.map(|(name, index)| (*index, name.clone())).collect()
    }

    /// Returns the names of the paths, in the order of the configuration.
    pub fn path_names(&self) -> Vec<Arc<str>> {
        self.maps().names.iter().map(|(name, _)| name.clone()).collect()
    }

    fn loader<'a>(&'a self, btf: &'a KernelBtf) -> Loader<'a> {
        Loader { maps: &self.open_maps, btf, cgroup_id: self.links().cgroup.id }
    }

    fn maps(&self) -> MutexGuard<'_, Maps> {
        locked(&self.maps)
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        locked(&self.links)
    }

    /// The events of flows.
    pub fn events(&self) -> Result<Events> {
        Events::open(self.open_maps.own("EVENTS")?)
    }

    /// Takes everything out of the kernel. Flows go on: those under an
    /// algorithm of ours keep it until they end.
    pub fn remove(&self) -> Result<()> {
        self.links().let_go(&self.pins);
        Ok(self.pins.remove()?)
    }
}
