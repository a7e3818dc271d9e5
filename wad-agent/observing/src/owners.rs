//! Whose flows are, in words, from the numbers that the kernel side has.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use wad_common::{
    policy::ANY_USER,
    process::{COMMAND_BYTES, Process},
};
use wad_instruments::{Owner, Place};
use wad_linux::cgroup_names::CgroupNames;
use wad_toolbox::{mutex::locked, shown};

/// Tells whose flows are, and remembers cgroups and the names of commands.
#[derive(Default)]
pub struct Owners(Mutex<Known>);

#[derive(Default)]
struct Known {
    names: CgroupNames,
    /// The places of the cgroups that flows have been in lately: of those that are gone,
    /// nobody else knows any more.
    places: HashMap<u64, Place>,
    /// Thousands of flows share a few.
    commands: HashMap<[u8; COMMAND_BYTES], Arc<str>>,
}

/// So many are kept of each.
const MOST_KNOWN: usize = 4_096;

impl Owners {
    /// Returns whose a flow is of this user, cgroup and process.
    pub fn of(&self, user: u32, cgroup: u64, process: &Process) -> Owner {
        let Known { names, places, commands } = &mut *locked(&self.0);
        if places.len() >= MOST_KNOWN || commands.len() >= MOST_KNOWN {
            places.clear();
            commands.clear();
        }
        let place = places.entry(cgroup).or_insert_with(|| {
            names.path(cgroup).map_or_else(Place::default, |path| Place::of(&path))
        });
        let is_known = process.pid != 0;
        let command = || {
            let name = commands.entry(process.command);
            Arc::clone(name.or_insert_with(|| shown::text(&process.command).into()))
        };
        Owner {
            uid: Some(user).filter(|user| *user != ANY_USER),
            pid: is_known.then_some(process.pid),
            process: is_known.then(command),
            place: place.clone(),
        }
    }
}
