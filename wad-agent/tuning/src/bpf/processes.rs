//! Whose flows are: who connects is seen by the tuner; who accepts by a program of its own
//! at the end of accept(2), where the kernel lets one be there; and who has the others by a
//! look at the open files of all processes.

use std::{collections::HashMap, os::fd::AsFd as _};

use wad_common::process::{Held, Process};

use super::{
    Result, TuningError, iterators,
    programs::{self, Loader},
    records,
};

/// Finds the processes of flows of which nobody has seen who connected or accepted, in the
/// agent's PID namespace and those below it: by a look at the open files of all processes,
/// which takes milliseconds where there are tens of thousands. The program is not kept,
/// which would be a descriptor for what is seldom asked. Returns those of connections on no
/// path, by the cookies of their sockets.
pub fn find_holders(loader: Loader<'_>) -> Result<HashMap<u64, Process>> {
    let link = iterators::link(&loader.load(&programs::HOLDERS)?)?;
    let output = iterators::read(link.as_fd()).map_err(TuningError::Running)?;
    let mut holders = HashMap::new();
    for held in records::all::<Held>(&output) {
        holders.entry(held.cookie).or_insert(held.process);
    }
    Ok(holders)
}
