//! Congestion signals of flows are counted where the kernel lets a program be when a flow's
//! state of congestion control changes.

use std::os::fd::AsFd as _;

use aya_obj::generated::{bpf_attach_type, bpf_prog_type};
use tracing::info;
use wad_common::instruments::Members;
use wad_struct_ops::{self as struct_ops, KernelBtf, StructOpsError, sys};
use wad_toolbox::causes::with_causes;

use super::{Pins, Result, TuningError, maps, running};

/// Has the kernel count them from now on, and after the agent's end.
pub fn watch(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) {
    if pins.signals_link().exists() {
        return;
    }
    if let Err(error) = try_watch(pins, btf, cgroup_id) {
        info!(
            "congestion signals are not counted (that takes Linux 5.19): {}",
            with_causes(&error.into())
        );
    }
}

fn try_watch(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Result<()> {
    let attach_type_id = btf.typedef_id("btf_trace_tcp_cong_state_set")?;
    let maps = maps::open_but_matching(pins)?;
    let object = running::link_object(&maps, &[], btf, (cgroup_id, &Members::NONE))?;
    let program = struct_ops::load(&sys::ProgramLoad {
        name: "wad_signals",
        instructions: object.instructions("wad_signals").map_err(StructOpsError::from)?,
        program_type: bpf_prog_type::BPF_PROG_TYPE_TRACING,
        attach_type_id,
        attach_type: bpf_attach_type::BPF_TRACE_RAW_TP as u32,
    })?;
    sys::link_raw_tracepoint(program.as_fd())
        .and_then(|link| sys::pin(&link, &pins.signals_link()))
        .map_err(TuningError::Running)
}
