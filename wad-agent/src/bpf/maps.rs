//! The pinned maps, from the agent's side.

use std::{collections::HashMap, sync::Arc};

use aya::maps::{
    Array, ArrayOfMaps, HashMap as BpfHashMap, Map, MapData, MapError,
    lpm_trie::{Key, LpmTrie},
};
use wad_common::{
    counter::{Counter, Setting},
    policy::{Policy, Rule, RuleRun},
    stats::PathStats,
};

use super::{
    Pins, Result, TuningError,
    policy_set::{PolicySet, unpadded},
};
use crate::{
    config::PathPolicy,
    instance::Instance,
    journal::Change,
    metrics::{PathReading, Readings},
};

/// Names of the maps, as in wad-ebpf.
pub const NAMES: [&str; 8] =
    ["PREFIX_SETS", "RULE_SETS", "POLICY_SETS", "SETTINGS", "COUNTERS", "PATHS", "FLOWS", "EVENTS"];

pub const BPF_F_NO_PREALLOC: u32 = 1;
pub const BPF_F_INNER_MAP: u32 = 1 << 12;

type Prefixes = LpmTrie<MapData, [u8; 16], RuleRun>;

/// The maps that the agent reads and writes.
pub struct Maps {
    prefix_sets: ArrayOfMaps<MapData, Prefixes>,
    rule_sets: ArrayOfMaps<MapData, Array<MapData, Rule>>,
    policy_sets: ArrayOfMaps<MapData, Array<MapData, Policy>>,
    settings: Array<MapData, u64>,
    counters: Array<MapData, u64>,
    paths: BpfHashMap<MapData, u32, PathStats>,
    /// The paths in force, in the order of the file, with their indices.
    pub names: Vec<(Arc<str>, u32)>,
    max_flows: Vec<u32>,
}

/// Opens a pinned map.
pub fn open(pins: &Pins, name: &'static str) -> Result<MapData> {
    MapData::from_pin(pins.map(name)).map_err(named(name))
}

impl Maps {
    /// Opens the pinned maps.
    pub fn open(pins: &Pins) -> Result<Self> {
        let open = |name| open(pins, name);
        Ok(Self {
            prefix_sets: Map::ArrayOfMaps(open("PREFIX_SETS")?)
                .try_into()
                .map_err(named("PREFIX_SETS"))?,
            rule_sets: Map::ArrayOfMaps(open("RULE_SETS")?)
                .try_into()
                .map_err(named("RULE_SETS"))?,
            policy_sets: Map::ArrayOfMaps(open("POLICY_SETS")?)
                .try_into()
                .map_err(named("POLICY_SETS"))?,
            settings: Map::Array(open("SETTINGS")?).try_into().map_err(named("SETTINGS"))?,
            counters: Map::Array(open("COUNTERS")?).try_into().map_err(named("COUNTERS"))?,
            paths: Map::HashMap(open("PATHS")?).try_into().map_err(named("PATHS"))?,
            names: Vec::new(),
            max_flows: Vec::new(),
        })
    }

    /// Sets the bound on the memory that tuned flows may reserve.
    pub fn set_max_memory(&mut self, bytes: u64) -> Result<()> {
        self.set(Setting::MaxMemory, bytes)
    }

    /// Puts a policy set in force, whole: no flow sees half of it. Returns its
    /// number.
    pub fn install(&mut self, paths: &[PathPolicy], instance: &Instance) -> Result<u64> {
        let generation = self.get(Setting::Generation)?;
        let known = self.known_paths(generation)?;
        let set = PolicySet::new(paths, &known, instance);
        let (rules, policies, prefixes) = (rules(&set)?, policies(&set)?, prefixes(&set)?);
        let mut fill = |slot: u64| {
            let slot = (slot & 1) as u32;
            self.rule_sets.set(slot, &rules, 0).map_err(named("RULE_SETS"))?;
            self.policy_sets.set(slot, &policies, 0).map_err(named("POLICY_SETS"))?;
            self.prefix_sets.set(slot, &prefixes, 0).map_err(named("PREFIX_SETS"))
        };
        fill(generation + 1)?;
        self.settings
            .set(Setting::Generation as u32, generation + 1, 0)
            .map_err(named("SETTINGS"))?;
        // Changing an array of maps waits for the programs that run
        // (`maybe_wait_bpf_programs()`): the first round, for those that still
        // use the set before; the second then replaces and frees it.
        fill(generation + 1)?;
        fill(generation)?;
        self.names = set.names.into_iter().map(|(name, index)| (name.into(), index)).collect();
        self.max_flows = paths.iter().map(|path| path.max_flows.unwrap_or(0)).collect();
        Ok(generation + 1)
    }

    /// What the kernel side has counted.
    pub fn readings(&self, changes: &[Change]) -> Result<Readings> {
        let stats: HashMap<u32, PathStats> =
            self.paths.iter().collect::<Result<_, _>>().map_err(named("PATHS"))?;
        let mut counters = [0; Counter::COUNT as usize];
        for (index, counter) in counters.iter_mut().enumerate() {
            *counter = self.counters.get(&(index as u32), 0).map_err(named("COUNTERS"))?;
        }
        let paths =
            self.names.iter().zip(&self.max_flows).map(|((name, index), max_flows)| PathReading {
                name: name.clone(),
                max_flows: *max_flows,
                stats: stats.get(index).copied().unwrap_or_default(),
            });
        Ok(Readings {
            paths: paths.collect(),
            counters,
            generation: self.get(Setting::Generation)?,
            memory_limit_bytes: self.get(Setting::MaxMemory)?,
            changes: changes.to_vec(),
            ..Readings::default()
        })
    }

    /// The paths in force, in the order of the file, with their policies.
    pub fn policies(&self) -> Result<Vec<(Arc<str>, Policy)>> {
        let slot = (self.get(Setting::Generation)? & 1) as u32;
        let policies = self.policy_sets.get(&slot, 0).map_err(named("POLICY_SETS"))?;
        let of = |(name, index): &(Arc<str>, u32)| {
            let policy = policies.get(index, 0).map_err(named("POLICY_SETS"))?;
            Ok((Arc::clone(name), policy))
        };
        self.names.iter().map(of).collect()
    }

    /// The paths that an agent before this one had in force, with their indices.
    fn known_paths(&self, generation: u64) -> Result<HashMap<String, u32>> {
        if generation == 0 {
            return Ok(HashMap::new());
        }
        let slot = (generation & 1) as u32;
        let policies = self.policy_sets.get(&slot, 0).map_err(named("POLICY_SETS"))?;
        let mut known = HashMap::new();
        for index in 0..policies.len() {
            let policy = policies.get(&index, 0).map_err(named("POLICY_SETS"))?;
            if policy.name[0] != 0 {
                known.insert(unpadded(&policy.name), index);
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

// Maps have at least one place.

fn prefixes(set: &PolicySet) -> Result<Prefixes> {
    let error = named("PREFIX_SETS");
    let entries = set.prefixes.len().max(1) as u32;
    let mut map = Prefixes::create(entries, BPF_F_NO_PREALLOC).map_err(&error)?;
    for (prefix, run) in &set.prefixes {
        let key = Key::new(prefix.bits.into(), prefix.address.to_be_bytes());
        map.insert(&key, run, 0).map_err(&error)?;
    }
    Ok(map)
}

fn rules(set: &PolicySet) -> Result<Array<MapData, Rule>> {
    let error = named("RULE_SETS");
    let mut map = Array::create(set.rules.len().max(1) as u32, BPF_F_INNER_MAP).map_err(&error)?;
    for (index, rule) in set.rules.iter().enumerate() {
        map.set(index as u32, rule, 0).map_err(&error)?;
    }
    Ok(map)
}

fn policies(set: &PolicySet) -> Result<Array<MapData, Policy>> {
    let error = named("POLICY_SETS");
    let entries = set.policies.len().max(1) as u32;
    let mut map = Array::create(entries, BPF_F_INNER_MAP).map_err(&error)?;
    for (index, policy) in set.policies.iter().enumerate() {
        if let Some(policy) = policy {
            map.set(index as u32, policy, 0).map_err(&error)?;
        }
    }
    Ok(map)
}

fn named(name: &'static str) -> impl Fn(MapError) -> TuningError {
    move |source| TuningError::Map { name, source }
}
