//! The kernel's measurement of a BPF program's run time takes time itself: the kernel
//! reads its clock before and after each run (`bpf_prog_start_time()`).

use std::{ffi::CStr, os::fd::AsRawFd};

use anyhow::{Context as _, Result};
use wad_testbed::bpf;

use super::programs;

// include/uapi/linux/bpf.h
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;

const NAME: &CStr = c"wad_bench_empty";
const RUNS: u32 = 100_000;

/// These are the fields of `union bpf_attr` for BPF_PROG_TEST_RUN.
#[repr(C)]
struct Run {
    program: u32,
    returned: u32,
    input_bytes: u32,
    output_bytes: u32,
    input_at: u64,
    output_at: u64,
    times: u32,
    duration_ns: u32,
}

/// Returns the run time of a program that does nothing, with caches as warm as they
/// get, as the kernel counts it while `kernel.bpf_stats_enabled` is on.
///
/// # Errors
/// Without root.
pub fn ns_of_nothing() -> Result<f64> {
    // r0 = 0; return r0
    let nothing = [bpf::instruction(0xb7, 0x00, 0, 0), bpf::instruction(0x95, 0x00, 0, 0)];
    let program = bpf::load(BPF_PROG_TYPE_SOCKET_FILTER, NAME, &nothing)?;
    // As short as a frame of Ethernet may be.
    let packet = [0_u8; 64];
    let mut run = Run {
        program: program.as_raw_fd() as u32,
        returned: 0,
        input_bytes: packet.len() as u32,
        output_bytes: 0,
        input_at: packet.as_ptr() as u64,
        output_at: 0,
        times: RUNS,
        duration_ns: 0,
    };
    bpf::command(BPF_PROG_TEST_RUN, &mut run).context("cannot run an empty BPF program")?;
    let loaded = programs::programs()?
        .into_iter()
        .find(|program| program.name.as_deref().map(str::as_bytes) == Some(NAME.to_bytes()))
        .context("bpftool does not show the empty BPF program")?;
    Ok(loaded.run_time_ns as f64 / loaded.run_cnt as f64)
}
