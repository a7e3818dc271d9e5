//! bpftool tells the run time and memory of BPF programs and maps.

use std::collections::HashSet;

use serde::Deserialize;

use wad_testbed::process::{ProcessError, run};

/// A loaded program.
#[derive(Debug, Deserialize)]
pub struct Program {
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
    /// Time spent in it while `kernel.bpf_stats_enabled` was on.
    #[serde(default)]
    pub run_time_ns: u64,
    #[serde(default)]
    pub run_cnt: u64,
}

#[derive(Debug, Deserialize)]
struct Map {
    id: u32,
    #[serde(default)]
    bytes_memlock: u64,
}

/// Returns all programs of the host.
///
/// # Errors
/// When bpftool fails.
pub fn programs() -> Result<Vec<Program>, ProcessError> {
    Ok(parse(&run("bpftool", &["-j", "prog", "show"])?))
}

/// Returns the ids of all maps of the host.
///
/// # Errors
/// When bpftool fails.
pub fn map_ids() -> Result<HashSet<u32>, ProcessError> {
    Ok(maps()?.into_iter().map(|map| map.id).collect())
}

/// Returns the memory of the maps that are not among those.
///
/// # Errors
/// When bpftool fails.
pub fn memory_bytes_of_others(than: &HashSet<u32>) -> Result<u64, ProcessError> {
    let others = maps()?.into_iter().filter(|map| !than.contains(&map.id));
    Ok(others.map(|map| map.bytes_memlock).sum())
}

fn maps() -> Result<Vec<Map>, ProcessError> {
    Ok(parse(&run("bpftool", &["-j", "map", "show"])?))
}

fn parse<T: for<'a> Deserialize<'a>>(json: &str) -> Vec<T> {
    serde_json::from_str(json).expect("bpftool -j prints a list of objects")
}
