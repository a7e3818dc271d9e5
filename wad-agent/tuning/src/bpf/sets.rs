//! The arrays of maps that hold the policy sets, made before aya looks for them.
//!
//! aya would make them with an inner map that has type information. Before Linux
//! 6.2 such an array takes no map without (seen on 6.1: EINVAL; its
//! `bpf_map_meta_equal()` compares where a timer would be in a value, which type
//! information changes), and those that aya makes later have none.

use std::os::fd::AsFd as _;

use aya_obj::generated::bpf_map_type::{self, *};
use wad_common::policy::{Policy, Rule, RuleRun};
use wad_struct_ops::sys::{MapSpec, create_map, pin};

use super::{
    Pins, Result, TuningError,
    set_maps::{BPF_F_INNER_MAP, BPF_F_NO_PREALLOC},
};

/// One set is in force, the other is being prepared.
const SETS: u32 = 2;

/// Makes and pins them.
pub fn make(pins: &Pins) -> Result<()> {
    // A prefix's length and its 16 bytes.
    make_one(pins, "PREFIX_SETS", BPF_MAP_TYPE_LPM_TRIE, 20, size_of::<RuleRun>())?;
    make_one(pins, "RULE_SETS", BPF_MAP_TYPE_ARRAY, 4, size_of::<Rule>())?;
    make_one(pins, "POLICY_SETS", BPF_MAP_TYPE_ARRAY, 4, size_of::<Policy>())?;
    // A cgroup's number, and the bits of the patterns that it fits.
    make_one(pins, "CGROUP_SETS", BPF_MAP_TYPE_HASH, 8, size_of::<u64>())?;
    // The first bits of a name, and those of the patterns that all names fit which begin so.
    make_one(pins, "INTERFACE_SETS", BPF_MAP_TYPE_LPM_TRIE, 20, size_of::<u64>())
}

fn make_one(
    pins: &Pins,
    name: &'static str,
    inner_type: bpf_map_type,
    key_bytes: u32,
    value_bytes: usize,
) -> Result<()> {
    let array = inner_type == BPF_MAP_TYPE_ARRAY;
    // What all of a set have in common; how many entries, each has for itself.
    let like = MapSpec {
        name,
        map_type: inner_type,
        key_bytes,
        value_bytes: value_bytes as u32,
        entries: 1,
        flags: if array { BPF_F_INNER_MAP } else { BPF_F_NO_PREALLOC },
    };
    let sets = MapSpec {
        name,
        map_type: BPF_MAP_TYPE_ARRAY_OF_MAPS,
        key_bytes: 4,
        value_bytes: 4,
        entries: SETS,
        flags: 0,
    };
    create_map(&like, None)
        .and_then(|inner| create_map(&sets, Some(&inner)))
        .and_then(|map| pin(map.as_fd(), &pins.map(name)))
        .map_err(|source| TuningError::Sets { name, source })
}
