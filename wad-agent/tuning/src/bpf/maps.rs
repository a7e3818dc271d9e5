//! The pinned maps, from the agent's side.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use aya::maps::{
    Array, ArrayOfMaps, HashMap as BpfHashMap, InnerMap, Map, MapData, MapError, lpm_trie::Key,
};
use tracing::{debug, warn};
use wad_common::{
    counter::{Counter, Setting},
    event::Kind,
    growth::{Holder, Room},
    policy::{Policy, Rule, RuleRun},
    refused::Refusal,
    stats::PathStats,
};
use wad_policy::{
    config::{Origin, PathPolicy},
    pod::Pods,
    switch::LeftAlone,
};
use wad_toolbox::{causes::told, mutex::locked, refusals::RefusedFlows, shown};

use super::{
    Pins, Result, TuningError,
    error::named,
    open_maps::OpenMaps,
    pinned_policies::PinnedPolicies,
    set_maps::{BPF_F_INNER_MAP, SetMaps},
};
use crate::{
    cgroup_bits::Groups,
    explain::{Answer, Basis, Known, Query, RuleSet, explain},
    instance::Instance,
    policy_set::{Indices, Making, Patterns, PolicySet, Withheld},
    readings::{KernelReadings, PathReading, PathState},
    shares::Shares,
};

/// The maps that the agent reads and writes.
pub struct Maps {
    /// For the maps of sets, which are wanted only when one is put in force: descriptors may be few.
    open: OpenMaps,
    pinned: PinnedPolicies,
    settings: Array<MapData, u64>,
    counters: Array<MapData, u64>,
    paths: BpfHashMap<MapData, u32, PathStats>,
    refusals: BpfHashMap<MapData, Refusal, u64>,
    held: BpfHashMap<MapData, Holder, u32>,
    /// The paths in force, in the order of the file, with their indices.
    pub names: Vec<(Arc<str>, u32)>,
    max_flows: Vec<u32>,
    /// Shares of new flows that paths have been given hold for other sets, too.
    shares: Shares,
    left_alone: LeftAlone,
    /// The settings of paths whose flows are left alone, by their index.
    withheld: HashMap<u32, Withheld>,
    /// The origins of the paths that say what they carry, by their index.
    origins: HashMap<u32, Origin>,
    /// The maps in force, once this agent has put any there.
    current: Option<SetMaps>,
    /// There may be counts of paths that are not in force any more.
    has_gone: bool,
}

/// The bounds on buffers, by the memory that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Only buffers of flows grow that have room.
    pub is_short: bool,
    /// Most that a buffer of one may have that has none; None for what its path says.
    pub cap_bytes: Option<u32>,
    /// These have their part. All others have room.
    pub held: HashMap<Holder, Room>,
}

impl Maps {
    /// Reads and writes these maps.
    pub fn new(pins: &Pins, maps: &OpenMaps, left_alone: &LeftAlone) -> Result<Self> {
        let open = |name| maps.own(name);
        Ok(Self {
            open: maps.clone(),
            pinned: PinnedPolicies::of(pins),
            settings: Map::Array(open("SETTINGS")?).try_into().map_err(named("SETTINGS"))?,
            counters: Map::Array(open("COUNTERS")?).try_into().map_err(named("COUNTERS"))?,
            paths: Map::HashMap(open("PATHS")?).try_into().map_err(named("PATHS"))?,
            refusals: Map::HashMap(open("REFUSALS")?).try_into().map_err(named("REFUSALS"))?,
            held: Map::HashMap(open("HELD")?).try_into().map_err(named("HELD"))?,
            names: Vec::new(),
            max_flows: Vec::new(),
            shares: Shares::default(),
            left_alone: left_alone.clone(),
            withheld: HashMap::new(),
            origins: HashMap::new(),
            current: None,
            // Of an agent before this one.
            has_gone: true,
        })
    }

    /// Puts a policy set in force, whole: no flow sees half of it. Returns the set's
    /// number. If it fails, nothing is changed.
    pub fn install(
        &mut self,
        paths: &[PathPolicy],
        instance: &Instance,
        groups: Groups<'_>,
    ) -> Result<u64> {
        let generation = self.get(Setting::Generation)?;
        let known = self.known_paths(generation)?;
        let disabled = &self.left_alone.as_disabled();
        let is_left = |index| {
            generation != 0 && !matches!(self.paths.get(&index, 0), Err(MapError::KeyNotFound))
        };
        let indices = Indices { next: self.get(Setting::NextPath)? as u32, is_left: &is_left };
        let making = Making {
            generation: generation + 1,
            known: &known,
            indices,
            instance,
            disabled,
            shares: &self.shares,
        };
        let set = PolicySet::new(paths, making);
        let inner = SetMaps::of(&set, groups)?;
        self.set(Setting::NextPath, set.next.into())?;
        self.put_in_force(generation, inner)?;
        // Of most paths there is nothing to tell.
        let told = set.names.iter().zip(paths).filter(|(_, path)| path.origin != Origin::default());
        self.origins = told.map(|((_, index), path)| (*index, path.origin.clone())).collect();
        self.names = set.names.into_iter().map(|(name, index)| (name.into(), index)).collect();
        self.max_flows = paths.iter().map(|path| path.max_flows.unwrap_or(0)).collect();
        self.withheld = set.withheld;
        self.shares.follow(paths);
        let stay = self.names.iter().filter(|(name, _)| known.contains_key(&**name)).count();
        self.has_gone |= stay < known.len();
        Ok(generation + 1)
    }

    /// Gives the policy of a path, if it is there, to this share of new flows from now on, be it
    /// of this set or of others, but to no more than the path itself is for. No flow that runs is
    /// touched, and the set in force stays the same.
    pub fn set_share(&mut self, path: &str, share: u32) -> Result<()> {
        let known = self.names.iter().find(|(name, _)| **name == *path);
        let Some(index) = known.map(|(_, index)| *index) else { return Ok(()) };
        let error = named("POLICY_SETS");
        let set = self.current.as_mut().ok_or(TuningError::NoSet)?;
        let left = self.shares.if_given(path, share);
        match self.withheld.get_mut(&index) {
            // It has it when it is enabled again.
            Some(aside) => aside.policy.share = left,
            None => {
                let policy = set.policies.get(&index, 0).map_err(&error)?;
                set.policies.set(index, Policy { share: left, ..policy }, 0).map_err(&error)?;
            }
        }
        self.shares.give(path, share);
        Ok(())
    }

    /// Returns the paths of which there are counts, but which are not in force.
    pub fn gone_paths(&self) -> Result<Vec<u32>> {
        if !self.has_gone {
            return Ok(Vec::new());
        }
        let in_force: HashSet<u32> = self.names.iter().map(|(_, index)| *index).collect();
        let indices: Vec<u32> =
            self.paths.keys().collect::<Result<_, _>>().map_err(named("PATHS"))?;
        Ok(indices.into_iter().filter(|index| !in_force.contains(index)).collect())
    }

    /// Forgets the counts of those paths which had gone before the latest walk over all
    /// flows began, and of which that has seen none.
    pub fn forget(&mut self, gone: &[u32]) -> Result<()> {
        let mut forgotten = HashSet::new();
        for index in gone {
            let stats = self.paths.get(index, 0).map_err(named("PATHS"))?;
            if stats.walk.seen.flows == 0 {
                self.paths.remove(index).map_err(named("PATHS"))?;
                forgotten.insert(*index);
            }
        }
        let refusals: Vec<Refusal> =
            self.refusals.keys().collect::<Result<_, _>>().map_err(named("REFUSALS"))?;
        for refusal in refusals.iter().filter(|refusal| forgotten.contains(&refusal.policy)) {
            self.refusals.remove(refusal).map_err(named("REFUSALS"))?;
        }
        self.has_gone = !self.gone_paths()?.is_empty();
        Ok(())
    }

    /// Has the kernel side send no events of these kinds.
    pub fn leave_out(&mut self, kinds: &[Kind]) -> Result<()> {
        let bits = kinds.iter().fold(0, |bits, kind| bits | kind.bit());
        self.set(Setting::Unwanted, bits)
    }

    /// Has the kernel side bound the buffers of flows.
    pub fn bound_buffers(&mut self, bounds: &Bounds) -> Result<()> {
        let Bounds { is_short, cap_bytes, held } = bounds;
        let known: Vec<Holder> =
            self.held.keys().collect::<Result<_, _>>().map_err(named("HELD"))?;
        for gone in known.iter().filter(|holder| !held.contains_key(holder)) {
            self.held.remove(gone).map_err(named("HELD"))?;
        }
        for (holder, room) in held {
            self.held.insert(holder, *room as u32, 0).map_err(named("HELD"))?;
        }
        self.set(Setting::BufferCap, cap_bytes.unwrap_or(0).into())?;
        self.set(Setting::HoldsGrowth, (*is_short).into())
    }

    /// Has the set in force know the cgroups and pods that there are now. Returns whether
    /// connections that run may fall under another path by that.
    pub fn follow_groups(&self, groups: Groups<'_>) -> Result<bool> {
        let set = self.current.as_ref().ok_or(TuningError::NoSet)?;
        locked(&set.cgroups).follow(groups)
    }

    /// Puts a policy set in force that has settings for all paths but these, and
    /// is the same otherwise. Returns its number. If it fails, nothing is changed.
    pub fn switch(&mut self, left_alone: &LeftAlone) -> Result<u64> {
        let generation = self.get(Setting::Generation)?;
        let error = named("POLICY_SETS");
        let now = self.current.as_ref().ok_or(TuningError::NoSet)?;
        let mut policies = Array::create(now.policies.len(), BPF_F_INNER_MAP).map_err(&error)?;
        let mut withheld = HashMap::new();
        let mut offers = false;
        for (name, index) in &self.names {
            let aside = self.withheld.get(index);
            let mut policy = match aside {
                Some(aside) => aside.policy,
                None => now.policies.get(index, 0).map_err(&error)?,
            };
            let observe = aside.is_some_and(|aside| aside.observe);
            if observe || left_alone.holds(name) {
                withheld.insert(*index, Withheld { policy, observe });
                policy = Policy::observing(policy.name);
            }
            let policy = Policy { generation: generation + 1, ..policy };
            offers |= policy.offers();
            policies.set(*index, policy, 0).map_err(&error)?;
        }
        let set = now.with_policies(policies, offers);
        self.put_in_force(generation, set)?;
        self.withheld = withheld;
        self.left_alone = left_alone.clone();
        Ok(generation + 1)
    }

    /// Makes a set the one after this generation.
    fn put_in_force(&mut self, generation: u64, set: SetMaps) -> Result<()> {
        self.fill(generation + 1, &set)?;
        if let Err(error) = self.pinned.pin(generation + 1, &set.policies) {
            // As where the BPF file system has been unmounted, which is said elsewhere.
            debug!("the next agent cannot read the names of paths: {}", told(&error));
        }
        self.set(Setting::Generation, generation + 1)?;
        // Changing an array of maps waits for the programs that run
        // (`maybe_wait_bpf_programs()`): here for those that still read the set
        // before, whose place is the next one's. Before the first there is none.
        if generation > 0
            && let Err(error) = self.fill(generation + 1, &set)
        {
            warn!("cannot wait for the end of the policy set before: {error}");
        }
        self.current = Some(set);
        Ok(())
    }

    /// Frees the set before the one in force, which connections that were being
    /// made when it changed have still been using.
    pub fn retire(&mut self) -> Result<()> {
        let generation = self.get(Setting::Generation)?;
        let Some(set) = self.current.take() else { return Ok(()) };
        let filled = self.fill(generation + 1, &set);
        self.current = Some(set);
        // Its policies are some MB where there are many paths.
        let _ = self.pinned.remove(generation + 1);
        filled
    }

    /// Pins what the kernel has of the set in force, where that is not pinned any more.
    pub fn pin_again(&self) -> Result<()> {
        let generation = self.get(Setting::Generation)?;
        self.current.as_ref().map_or(Ok(()), |set| self.pinned.pin(generation, &set.policies))
    }

    /// Makes a set that of a generation.
    fn fill(&mut self, generation: u64, set: &SetMaps) -> Result<()> {
        let slot = (generation & 1) as u32;
        self.put("RULE_SETS", slot, &*set.rules)?;
        self.put("POLICY_SETS", slot, &set.policies)?;
        if let Some(map) = &locked(&set.cgroups).map {
            self.put("CGROUP_SETS", slot, map)?;
        }
        if let Some(map) = &set.interfaces {
            self.put("INTERFACE_SETS", slot, &**map)?;
        }
        let others = self.get(Setting::Offers)? & !(1 << slot);
        self.set(Setting::Offers, others | u64::from(set.offers) << slot)?;
        self.put("PREFIX_SETS", slot, &*set.prefixes)
    }

    /// Puts a map into a place of a map of maps.
    fn put<T: InnerMap>(&self, name: &'static str, slot: u32, map: &T) -> Result<()> {
        let mut sets: ArrayOfMaps<_, T> =
            Map::ArrayOfMaps(self.open.own(name)?).try_into().map_err(named(name))?;
        sets.set(slot, map, 0).map_err(named(name))
    }

    /// Returns the policies of the set in force, by the number of their map.
    fn policies_by_number(&self, generation: u64) -> Result<Array<MapData, Policy>> {
        let error = named("POLICY_SETS");
        let sets = Map::ArrayOfMaps(self.open.own("POLICY_SETS")?);
        let sets: ArrayOfMaps<_, _> = sets.try_into().map_err(&error)?;
        sets.get(&((generation & 1) as u32), 0).map_err(error)
    }

    /// Returns which path the flows of a question fall under, and what they get.
    pub fn explain(&self, query: &Query) -> Result<Answer> {
        let set = self.current.as_ref().ok_or(TuningError::NoSet)?;
        let basis = Basis::PolicySet(self.get(Setting::Generation)?);
        let mut answer = explain(&InForce { maps: self, set }, query, basis)?;
        if let Some(path) = &mut answer.path
            && let Some((_, index)) = self.names.iter().find(|(name, _)| **name == *path.name)
        {
            path.refused = self.refused()?.remove(index).unwrap_or_default();
        }
        Ok(answer)
    }

    /// Flows that were refused a setting, by the indices of their paths' policies.
    fn refused(&self) -> Result<HashMap<u32, Vec<RefusedFlows>>> {
        let mut counts = Vec::new();
        for entry in self.refusals.iter() {
            counts.push(entry.map_err(named("REFUSALS"))?);
        }
        counts.sort_unstable_by_key(|(refusal, _)| (refusal.setting, refusal.reason));
        let mut by_path: HashMap<u32, Vec<_>> = HashMap::new();
        for (refusal, flows) in counts {
            by_path.entry(refusal.policy).or_default().push(RefusedFlows::new(refusal, flows));
        }
        Ok(by_path)
    }

    /// Returns what the kernel side has counted.
    pub fn readings(&self) -> Result<KernelReadings> {
        let stats: HashMap<u32, PathStats> =
            self.paths.iter().collect::<Result<_, _>>().map_err(named("PATHS"))?;
        let mut refused = self.refused()?;
        let mut counters = [0; Counter::COUNT as usize];
        for (index, counter) in counters.iter_mut().enumerate() {
            *counter = self.counters.get(&(index as u32), 0).map_err(named("COUNTERS"))?;
        }
        let paths =
            self.names.iter().zip(&self.max_flows).map(|((name, index), max_flows)| PathReading {
                name: name.clone(),
                state: self.state(name, *index),
                max_flows: *max_flows,
                stats: stats.get(index).copied().unwrap_or_default(),
                refused: refused.remove(index).unwrap_or_default(),
            });
        Ok(KernelReadings {
            refusals: Vec::new(),
            paths: paths.collect(),
            counters,
            generation: self.get(Setting::Generation)?,
            all_disabled: self.left_alone.disabled.all,
            programs: Vec::new(),
        })
    }

    /// Returns one count of those that concern no single path.
    pub fn count(&self, counter: Counter) -> Result<u64> {
        self.counters.get(&(counter as u32), 0).map_err(named("COUNTERS"))
    }

    fn state(&self, name: &str, index: u32) -> PathState {
        if self.left_alone.disabled.holds(name) {
            PathState::Disabled
        } else if self.withheld.get(&index).is_some_and(|withheld| withheld.observe) {
            PathState::Observed
        } else if self.left_alone.holds(name) {
            PathState::HeldBack
        } else {
            PathState::Tuned
        }
    }

    /// The paths in force, in the order of the file, with their policies: the first so many.
    pub fn policies(&self, most: usize) -> Result<Vec<(Arc<str>, Policy)>> {
        let set = self.current.as_ref().ok_or(TuningError::NoSet)?;
        let of = |(name, index): &(Arc<str>, u32)| {
            let policy = set.policies.get(index, 0).map_err(named("POLICY_SETS"))?;
            Ok((Arc::clone(name), policy))
        };
        self.names.iter().take(most).map(of).collect()
    }

    /// The paths in force, perhaps by an agent before this one, with their indices.
    fn known_paths(&self, generation: u64) -> Result<HashMap<String, u32>> {
        if generation == 0 {
            return Ok(HashMap::new());
        }
        if self.current.is_some() {
            let names = self.names.iter().map(|(name, index)| (name.as_ref().to_owned(), *index));
            return Ok(names.collect());
        }
        let error = named("POLICY_SETS");
        let policies = match self.pinned.open(generation) {
            Ok(policies) => policies,
            // By its number, which takes CAP_SYS_ADMIN.
            Err(_) => match self.policies_by_number(generation) {
                Ok(policies) => policies,
                Err(unknown) => {
                    warn!("counts of paths start at zero: {}", told(&unknown));
                    return Ok(HashMap::new());
                }
            },
        };
        let mut known = HashMap::new();
        for index in 0..policies.len() {
            let policy = policies.get(&index, 0).map_err(&error)?;
            if policy.name[0] != 0 && policy.generation == generation {
                known.insert(shown::text(&policy.name), index);
            }
        }
        Ok(known)
    }

    fn get(&self, setting: Setting) -> Result<u64> {
        self.settings.get(&(setting as u32), 0).map_err(named("SETTINGS"))
    }

    fn set(&mut self, setting: Setting, value: u64) -> Result<()> {
        self.settings.set(setting as u32, value, 0).map_err(named("SETTINGS"))
    }
}

/// The policy set in force, with what the agent knows beside it.
struct InForce<'a> {
    maps: &'a Maps,
    set: &'a SetMaps,
}

impl RuleSet for InForce<'_> {
    type Error = TuningError;

    fn run(&self, address: u128, bits: u8) -> Result<Option<RuleRun>> {
        let key = Key::new(bits.into(), address.to_be_bytes());
        match self.set.prefixes.get(&key, 0) {
            Ok(run) => Ok(Some(run)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(named("PREFIX_SETS")(error)),
        }
    }

    fn rule(&self, index: u32) -> Result<Rule> {
        self.set.rules.get(&index, 0).map_err(named("RULE_SETS"))
    }

    fn patterns(&self) -> &Patterns {
        &self.set.patterns
    }

    fn pods(&self) -> Option<Arc<Pods>> {
        Some(Arc::clone(&locked(&self.set.cgroups).pods))
    }

    fn policy(&self, index: u32) -> Result<Known> {
        let policy = match self.maps.withheld.get(&index) {
            Some(withheld) => withheld.policy,
            None => self.set.policies.get(&index, 0).map_err(named("POLICY_SETS"))?,
        };
        let state = self.maps.state(&shown::text(&policy.name), index);
        let origin = self.maps.origins.get(&index).cloned().unwrap_or_default();
        Ok(Known { policy, state, origin })
    }
}
