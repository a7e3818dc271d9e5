//! Whose flows are, in words, from the numbers that the kernel side has.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use wad_common::{
    policy::ANY_USER,
    process::{COMMAND_BYTES, Process},
};
use wad_instruments::{Owner, Place};
use wad_linux::cgroup_names;
use wad_toolbox::{mutex::locked, shown};

/// Tells whose flows are, and remembers cgroups and the names of commands.
#[derive(Default)]
pub struct Owners(Mutex<Known>);

#[derive(Default)]
struct Known {
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
        let Known { places, commands } = &mut *locked(&self.0);
        if places.len() >= MOST_KNOWN || commands.len() >= MOST_KNOWN {
            places.clear();
            commands.clear();
        }
        // What is not known now may be so for want of a descriptor.
        let place = match places.entry(cgroup) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => match cgroup_names::path(cgroup) {
                Some(path) => place.insert(Place::of(&path)).clone(),
                None => Place::default(),
            },
        };
        let is_known = process.pid != 0;
        let command = || {
            let name = commands.entry(process.command);
            Arc::clone(name.or_insert_with(|| shown::text(&process.command).into()))
        };
        Owner {
            uid: Some(user).filter(|user| *user != ANY_USER),
            pid: is_known.then_some(process.pid),
            process: is_known.then(command),
            place,
        }
    }
}
