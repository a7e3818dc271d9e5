//! The congestion control: struct_ops programs, one for each member of
//! `tcp_congestion_ops` that an algorithm needs.
//!
//! Only `cong_avoid` runs on each ACK. There is no `cong_control`, so the kernel
//! itself does proportional rate reduction (RFC 6937) during recovery.
//!
//! aya-obj knows no `struct_ops` section. The programs are in sections that it
//! parses like any other, `freplace/MEMBER`, and the agent loads them itself.
#![no_std]
#![no_main]

mod tcp;

use wad_common::law::Aimd;
use wad_ebpf::{maps, policies};

use crate::tcp::{Context, Tcp};

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/init")]
pub extern "C" fn aimd_init(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    tcp.set_credit_q16(0);
    take_policy(&tcp, policies::generation());
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/cong_avoid")]
pub extern "C" fn aimd_cong_avoid(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let generation = policies::generation();
    if generation != tcp.generation() {
        take_policy(&tcp, generation);
    }
    let entitled_segments = tcp.entitled_segments();
    let mut before = tcp.window();
    if before.cwnd_segments >= entitled_segments {
        return 0;
    }
    before.clamp_segments = before.clamp_segments.min(entitled_segments);
    let after = tcp.aimd().on_ack(before, ctx.argument(2) as u32);
    if after.cwnd_segments != before.cwnd_segments {
        tcp.set_cwnd_segments(after.cwnd_segments);
    }
    tcp.set_credit_q16(after.credit_q16);
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/ssthresh")]
pub extern "C" fn aimd_ssthresh(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    tcp.set_credit_q16(0);
    tcp.aimd().on_congestion(tcp.cwnd_segments()).into()
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/undo_cwnd")]
pub extern "C" fn aimd_undo_cwnd(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    Aimd::on_undo(tcp.cwnd_segments(), tcp.prior_cwnd_segments()).into()
}

/// Reads the flow's parameters from its policy. A flow without one, because an
/// application chose the algorithm by itself, is a standard one; a flow whose
/// path is gone keeps what it had.
#[inline(always)]
fn take_policy(tcp: &Tcp, generation: u64) {
    // SAFETY: the kernel gave this program the socket.
    let flow = unsafe { maps::flow(tcp.socket()) };
    match flow.and_then(|flow| policies::policy(generation, flow.policy)) {
        Some(policy) => tcp.set_aimd(policy.aimd),
        None if tcp.aimd().increase_q16 == 0 => tcp.set_aimd(Aimd::STANDARD),
        None => {}
    }
    tcp.set_generation(generation);
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
