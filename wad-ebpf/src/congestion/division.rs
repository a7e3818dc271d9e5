//! A divided send buffer, as its path's flows come and go: the flow itself has its
//! part changed, within an RTT. What gets no ACKs, or is under a law of the
//! kernel's, and all receive buffers, are the agent's to bring along.

use core::ffi::c_void;

use aya_ebpf::helpers::{bpf_getsockopt, bpf_setsockopt};
use wad_common::flow::{Flow, option::SNDBUF};
use wad_ebpf::{counts, maps};

use crate::tcp::Tcp;

// include/uapi/asm-generic/socket.h
const SOL_SOCKET: i32 = 1;
const SO_SNDBUF: i32 = 7;

/// Lets the buffer follow, on each ACK of a flow whose path's buffers are divided.
#[inline(always)]
pub fn follow(tcp: Tcp) {
    // SAFETY: the kernel gave this program the socket.
    let Some(flow) = (unsafe { maps::flow(tcp.socket()) }) else { return };
    let flows = counts::tuned_flows(flow.policy);
    if flows == flow.division.sndbuf_flows || flows == 0 {
        return;
    }
    // Flows may come and go with each packet: their parts change once in an RTT.
    let now_us = tcp.now_us() as u32;
    if now_us.wrapping_sub(flow.division.looked_us) < tcp.srtt_us() {
        return;
    }
    flow.division.looked_us = now_us;
    // An application that has chosen a size since keeps it.
    let is_ours = u32::from(flow.given) & SNDBUF != 0
        && flow.is_tuned()
        && flow.divides()
        && sndbuf_bytes(tcp) == flow.after.sndbuf_bytes;
    if is_ours {
        set_part(tcp, flow, flows);
    }
}

#[inline(always)]
fn set_part(tcp: Tcp, flow: &mut Flow, flows: u32) {
    flow.division.sndbuf_flows = flows;
    if !counts::resize(flow) {
        // What it has stays.
        return;
    }
    let mut bytes = flow.sndbuf_bytes();
    let value: *mut c_void = (&raw mut bytes).cast();
    // SAFETY: a socket of the kernel; the value has the length given.
    unsafe { bpf_setsockopt(tcp.socket(), SOL_SOCKET, SO_SNDBUF, value, size_of::<u32>() as i32) };
    flow.after.sndbuf_bytes = sndbuf_bytes(tcp);
}

/// Returns it as the kernel reports it, doubled.
#[inline(always)]
fn sndbuf_bytes(tcp: Tcp) -> u32 {
    let mut bytes = 0_u32;
    let value: *mut c_void = (&raw mut bytes).cast();
    // SAFETY: as above. On failure it stays zero.
    unsafe { bpf_getsockopt(tcp.socket(), SOL_SOCKET, SO_SNDBUF, value, size_of::<u32>() as i32) };
    bytes
}
