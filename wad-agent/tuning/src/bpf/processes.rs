//! Whose flows are: who connects is seen by the tuner; who accepts by a program of its own
//! at the end of accept(2), where the kernel lets one be there; and who has the others by a
//! look at the open files of all processes.

use std::{collections::HashMap, os::fd::AsFd as _};

use aya_obj::generated::{bpf_attach_type, bpf_prog_type};
use tracing::info;
use wad_common::{
    instruments::Members,
    process::{Held, Process},
};
use wad_struct_ops::{self as struct_ops, KernelBtf, StructOpsError, sys};
use wad_toolbox::causes::with_causes;

use super::{Pins, Result, TuningError, maps, records, running};

/// Hands out a connection that was made (net/ipv4/inet_connection_sock.c).
const ACCEPT: &str = "inet_csk_accept";
/// It has fewer parameters since Linux 6.10.
const PARAMETERS_NOW: u32 = 2;

/// Has the kernel note who accepts a connection, from now on and after the agent's end.
/// Where it cannot, that is found out when somebody asks.
pub fn watch_accepts(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) {
    if pins.accepts_link().exists() {
        return;
    }
    if let Err(error) = try_watch_accepts(pins, btf, cgroup_id) {
        info!(
            "which process has accepted a connection is known once somebody asks for flows, not \
             before: {}",
            with_causes(&error.into())
        );
    }
}

fn try_watch_accepts(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Result<()> {
    let is_now = btf.function_parameters(ACCEPT)? == PARAMETERS_NOW;
    let name = if is_now { "wad_accepted" } else { "wad_accepted_before" };
    let maps = maps::open_but_matching(pins)?;
    let object = running::link_object(&maps, &[], btf, (cgroup_id, &Members::NONE))?;
    let program = struct_ops::load(&sys::ProgramLoad {
        name,
        instructions: object.instructions(name).map_err(StructOpsError::from)?,
        program_type: bpf_prog_type::BPF_PROG_TYPE_TRACING,
        attach_type_id: btf.function_id(ACCEPT)?,
        attach_type: bpf_attach_type::BPF_TRACE_FEXIT as u32,
    })?;
    sys::link_raw_tracepoint(program.as_fd())
        .and_then(|link| sys::pin(&link, &pins.accepts_link()))
        .map_err(TuningError::Running)
}

/// Finds the processes of flows of which nobody has seen who connected or accepted, in the
/// agent's PID namespace and those below it: by a look at the open files of all processes,
/// which takes milliseconds where there are tens of thousands. The program is not kept,
/// which would be a descriptor for what is seldom asked. Returns those of connections on no
/// path, by the cookies of their sockets.
pub fn find_holders(pins: &Pins, cgroup_id: u64) -> Result<HashMap<u64, Process>> {
    let iterator = ("wad_holders", "bpf_iter_task_file");
    let link =
        running::link_alone(pins, &KernelBtf::read()?, (cgroup_id, &Members::NONE), iterator)?;
    let output = running::read(link.as_fd()).map_err(TuningError::Running)?;
    let mut holders = HashMap::new();
    for held in records::all::<Held>(&output) {
        holders.entry(held.cookie).or_insert(held.process);
    }
    Ok(holders)
}
