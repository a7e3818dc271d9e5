//! The program that swallows what applications set by themselves: on the cgroup
//! only while a path overrides that, because it runs at every setsockopt(2) there.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::fd::{AsFd as _, BorrowedFd},
};

use aya_obj::generated::{bpf_attach_type, bpf_prog_type};

use super::{Pins, Result, TuningError, maps, objects};
use crate::{
    config::PathPolicy,
    struct_ops::{self, LinkedObject, StructOpsError, sys},
};

const PROGRAM: &str = "wad_options";

/// Attaches it, or takes it off, as these paths want it.
pub fn follow(pins: &Pins, cgroup: &File, paths: &[PathPolicy]) -> Result<()> {
    let wanted = paths.iter().any(|path| path.override_setsockopt);
    let link = pins.options_link();
    match (wanted, link.exists()) {
        (true, false) => attach(pins, cgroup),
        (false, true) => fs::remove_file(&link).map_err(TuningError::Options),
        _ => Ok(()),
    }
}

fn attach(pins: &Pins, cgroup: &File) -> Result<()> {
    let maps = maps::open_all(pins)?;
    let fds: HashMap<&str, BorrowedFd<'_>> =
        maps.iter().map(|(name, map)| (*name, map.fd().as_fd())).collect();
    let object =
        LinkedObject::link(objects::tuner(), HashMap::new(), &fds).map_err(StructOpsError::from)?;
    let program = struct_ops::load(&sys::ProgramLoad {
        name: PROGRAM,
        instructions: object.instructions(PROGRAM).map_err(StructOpsError::from)?,
        program_type: bpf_prog_type::BPF_PROG_TYPE_CGROUP_SOCKOPT,
        attach_type_id: 0,
        attach_type: bpf_attach_type::BPF_CGROUP_SETSOCKOPT as u32,
    })?;
    let link =
        sys::link_cgroup(program.as_fd(), cgroup.as_fd(), bpf_attach_type::BPF_CGROUP_SETSOCKOPT);
    link.and_then(|link| sys::pin(&link, &pins.options_link())).map_err(TuningError::Options)
}
