//! The flow's send buffer, which the flow itself has changed on its ACKs: it grows with
//! the window where the kernel's own autotuning ends, and where the path's buffers are
//! divided, its part changes as others come and go. What gets no ACKs, or is under a law
//! of the kernel's, and all receive buffers, are the agent's to bring along.

use core::ffi::c_void;

use aya_ebpf::helpers::bpf_setsockopt;
use wad_common::{
    flow::{Flow, option::SNDBUF},
    growth::send_needs_bytes,
    refused::SocketSetting,
};
use wad_ebpf::{
    buffers::{self, Kind, Now},
    counts,
    uapi::{SO_SNDBUF, SOL_SOCKET},
};

use crate::tcp::Tcp;

/// Lets the buffer follow on an ACK: the window, where it is below what it may grow to;
/// the number of flows, where its path's buffers are divided.
#[inline(always)]
pub fn follow(tcp: Tcp, divides: bool) {
    // For most ACKs this is all.
    if !divides && !is_short(tcp) {
        return;
    }
    let Some(flow) = tcp.flow() else { return };
    let mut flows = flow.division.sndbuf_flows;
    if divides {
        let now = counts::tuned_flows(flow.policy);
        if now == 0 || now == flows && !flow.sndbuf_grows() {
            return;
        }
        flows = now;
    } else if !counts::may_grow(flow) {
        return;
    }
    if is_due(tcp, flow) {
        flow.division.sndbuf_flows = flows;
        resize(tcp, flow);
    }
}

/// Whether the window needs more than the buffer has, where the kernel gives no more.
#[inline(always)]
fn is_short(tcp: Tcp) -> bool {
    let has_bytes = tcp.sndbuf_bytes();
    needs_bytes(tcp) > u64::from(has_bytes) + u64::from(has_bytes / 4)
        && has_bytes >= kernel_bytes(tcp) / 4 * 3
}

/// Whether it is time to look at the buffer: the window grows with each ACK, and flows
/// may come and go with each; the buffer changes once in an RTT.
#[inline(always)]
fn is_due(tcp: Tcp, flow: &mut Flow) -> bool {
    let now_us = tcp.now_us() as u32;
    if now_us.wrapping_sub(flow.division.looked_us) < tcp.srtt_us() {
        return false;
    }
    flow.division.looked_us = now_us;
    true
}

#[inline(always)]
fn resize(tcp: Tcp, flow: &mut Flow) {
    if !flow.is_tuned() {
        return;
    }
    let now = Now {
        has_bytes: tcp.sndbuf_bytes(),
        needs_bytes: needs_bytes(tcp),
        autotuned_bytes: tcp.autotuned_sndbuf_bytes(),
        is_locked: tcp.sndbuf_is_locked(),
    };
    let Some(bytes) = buffers::buffer(flow, &Kind::send(flow), &now).next_bytes() else { return };
    let mut argument = bytes / 2;
    let value: *mut c_void = (&raw mut argument).cast();
    let bytes = size_of::<u32>() as i32;
    // SAFETY: a socket of the kernel; the value has the length given.
    let set = unsafe { bpf_setsockopt(tcp.socket(), SOL_SOCKET, SO_SNDBUF, value, bytes) };
    if set == 0 {
        flow.given |= SNDBUF as u16;
        flow.after.sndbuf_bytes = tcp.sndbuf_bytes();
    } else {
        counts::refuse(flow, SocketSetting::Sndbuf, set as i32);
    }
}

#[inline(always)]
fn needs_bytes(tcp: Tcp) -> u64 {
    send_needs_bytes(tcp.cwnd_segments(), tcp.mss_bytes())
}

/// Up to here the kernel sizes it by itself.
#[inline(always)]
fn kernel_bytes(tcp: Tcp) -> u32 {
    if tcp.sndbuf_is_locked() { 0 } else { tcp.autotuned_sndbuf_bytes() }
}
