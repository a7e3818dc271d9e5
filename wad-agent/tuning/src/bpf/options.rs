//! The program that swallows what applications set by themselves: on the cgroup
//! only while a path overrides that, because it runs at every setsockopt(2) there.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use aya_obj::generated::{bpf_attach_type, bpf_prog_type};
use wad_policy::config::PathPolicy;
use wad_struct_ops::{self as struct_ops, LinkedObject, StructOpsError, sys};

use super::{Pins, Result, TuningError, objects, open_maps::OpenMaps, pinned_maps};

const PROGRAM: &str = "wad_options";

/// Whether a path of these needs it.
pub fn is_wanted(paths: &[PathPolicy]) -> bool {
    paths.iter().any(|path| path.override_setsockopt)
}

/// Attaches it, if these paths want it and it is not there. Returns whether it did.
pub fn attach_wanted(
    (pins, maps): (&Pins, &OpenMaps),
    cgroup: &File,
    paths: &[PathPolicy],
) -> Result<bool> {
    let is_missing = is_wanted(paths) && !pins.options_link().exists();
    if is_missing {
        attach(&load(maps)?, pins, None, cgroup)?;
    }
    Ok(is_missing)
}

/// Takes it off, if it is there and these paths do not want it.
pub fn detach_unwanted(pins: &Pins, paths: &[PathPolicy]) -> Result<()> {
    let link = pins.options_link();
    if is_wanted(paths) || !link.exists() {
        return Ok(());
    }
    fs::remove_file(&link).map_err(TuningError::Options)
}

pub fn load(maps: &OpenMaps) -> Result<OwnedFd> {
    load_with(&maps.these(pinned_maps::OF_OPTIONS)?)
}

/// Loads it with these maps.
pub fn load_with(maps: &HashMap<&str, BorrowedFd<'_>>) -> Result<OwnedFd> {
    let object =
        LinkedObject::link(objects::tuner(), HashMap::new(), maps).map_err(StructOpsError::from)?;
    Ok(struct_ops::load(&sys::ProgramLoad {
        name: PROGRAM,
        instructions: object.instructions(PROGRAM).map_err(StructOpsError::from)?,
        program_type: bpf_prog_type::BPF_PROG_TYPE_CGROUP_SOCKOPT,
        attach_type_id: 0,
        attach_type: bpf_attach_type::BPF_CGROUP_SETSOCKOPT as u32,
    })?)
}

/// Attaches a program in the place of another build's, where that has one.
pub fn attach(program: &OwnedFd, pins: &Pins, before: Option<&Pins>, cgroup: &File) -> Result<()> {
    let path = pins.options_link();
    let theirs = before.map(Pins::options_link).filter(|link| link.exists());
    let attached = match theirs {
        Some(theirs) => sys::take_link(&theirs, program.as_fd(), &path),
        None => sys::link_cgroup(
            program.as_fd(),
            cgroup.as_fd(),
            bpf_attach_type::BPF_CGROUP_SETSOCKOPT,
        )
        .and_then(|link| sys::pin(link.as_fd(), &path)),
    };
    attached.map_err(TuningError::Options)
}

/// Puts it in force again where another build has begun to put its own in its place: the link is
/// pinned by both.
pub fn take_back(pins: &Pins, other: &Pins, maps: &OpenMaps) -> Result<()> {
    let link = pins.options_link();
    if !link.exists() || !other.options_link().exists() {
        return Ok(());
    }
    let program = load(maps)?;
    let link = sys::open_pin(&link).map_err(TuningError::Options)?;
    sys::update_link(link.as_fd(), program.as_fd()).map_err(TuningError::Options)
}
