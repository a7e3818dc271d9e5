//! The maps of one policy set, made before they are put in force.

use std::sync::{Arc, Mutex};

use aya::maps::{
    Array, HashMap as BpfHashMap, MapData,
    lpm_trie::{Key, LpmTrie},
};
use wad_common::policy::{INTERFACE_BYTES, Policy, Rule, RuleRun};
use wad_linux::cgroup_tree::MAX_CGROUPS;
use wad_policy::pod::Pods;

use super::{Result, error::named};
use crate::{
    cgroup_bits::{Bits, Difference, Groups, bits},
    policy_set::{Patterns, PolicySet},
};

pub const BPF_F_NO_PREALLOC: u32 = 1;
pub const BPF_F_INNER_MAP: u32 = 1 << 12;

pub type CgroupMap = BpfHashMap<MapData, u64, u64>;
pub type Prefixes = LpmTrie<MapData, [u8; 16], RuleRun>;
pub type InterfaceMap = LpmTrie<MapData, [u8; INTERFACE_BYTES], u64>;

/// The maps of one policy set.
pub struct SetMaps {
    pub rules: Arc<Array<MapData, Rule>>,
    pub policies: Array<MapData, Policy>,
    pub prefixes: Arc<Prefixes>,
    pub cgroups: Arc<Mutex<KnownCgroups>>,
    /// None where no rule asks, as of cgroups.
    pub interfaces: Option<Arc<InterfaceMap>>,
    pub patterns: Arc<Patterns>,
    /// Whether any flow offers another receive window at first.
    pub offers: bool,
}

impl SetMaps {
    /// Makes them, with what there is now of cgroups and pods.
    pub fn of(set: &PolicySet, groups: Groups<'_>) -> Result<Self> {
        let patterns = Arc::new(set.patterns.clone());
        Ok(Self {
            rules: Arc::new(rules(set)?),
            policies: policies(set)?,
            prefixes: Arc::new(prefixes(set)?),
            cgroups: Arc::new(Mutex::new(KnownCgroups::new(Arc::clone(&patterns), groups)?)),
            interfaces: interfaces(&patterns)?.map(Arc::new),
            patterns,
            offers: set.policies.iter().flatten().any(Policy::offers),
        })
    }

    /// Makes those of a set that has other policies, and is the same otherwise.
    pub fn with_policies(&self, policies: Array<MapData, Policy>, offers: bool) -> Self {
        Self {
            rules: Arc::clone(&self.rules),
            policies,
            prefixes: Arc::clone(&self.prefixes),
            cgroups: Arc::clone(&self.cgroups),
            interfaces: self.interfaces.clone(),
            patterns: Arc::clone(&self.patterns),
            offers,
        }
    }
}

/// The cgroups of a policy set.
pub struct KnownCgroups {
    /// The patterns of its rules.
    patterns: Arc<Patterns>,
    /// None where there are no patterns: no rule asks, and nobody looks into what the set's
    /// place has had.
    pub map: Option<CgroupMap>,
    /// The cgroups that fit any, as the map has them.
    fitting: Bits,
    /// The pods by which they do.
    pub pods: Arc<Pods>,
}

impl KnownCgroups {
    fn new(patterns: Arc<Patterns>, groups: Groups<'_>) -> Result<Self> {
        let map = if patterns.cgroups.is_empty() {
            None
        } else {
            let map = CgroupMap::create(MAX_CGROUPS as u32, BPF_F_NO_PREALLOC);
            Some(map.map_err(named("CGROUP_SETS"))?)
        };
        let mut known = Self { patterns, map, fitting: Bits::new(), pods: Arc::default() };
        known.follow(groups)?;
        Ok(known)
    }

    /// Has the map say what there is. Returns whether connections that run may fall under
    /// another path by that.
    pub fn follow(&mut self, groups: Groups<'_>) -> Result<bool> {
        self.pods = Arc::clone(groups.pods);
        let Some(map) = &mut self.map else { return Ok(false) };
        let error = named("CGROUP_SETS");
        let now = bits(&self.patterns.cgroups, groups);
        let Difference { gone, other, concerns_running } =
            Difference::between(&self.fitting, &now, groups.cgroups);
        for id in &gone {
            map.remove(id).map_err(&error)?;
        }
        for (id, bits) in &other {
            map.insert(id, bits, 0).map_err(&error)?;
        }
        self.fitting = now;
        Ok(concerns_running)
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

/// Returns what is known of names of interfaces; None where no rule asks.
fn interfaces(patterns: &Patterns) -> Result<Option<InterfaceMap>> {
    let prefixes = patterns.interface_prefixes();
    if prefixes.is_empty() {
        return Ok(None);
    }
    let error = named("INTERFACE_SETS");
    let mut map = InterfaceMap::create(prefixes.len() as u32, BPF_F_NO_PREALLOC).map_err(&error)?;
    for (name, counted_bits, bits) in prefixes {
        map.insert(&Key::new(counted_bits.into(), name), bits, 0).map_err(&error)?;
    }
    Ok(Some(map))
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
