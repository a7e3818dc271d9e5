//! The two BPF objects share this: the maps, how a flow's policy is found, and what
//! is counted.
//!
//! `tuner` (sock_ops) matches flows and sets what a socket option can set;
//! `congestion` (struct_ops) is the congestion control. The agent loads the
//! tuner first and gives its maps to the other by name.
#![cfg(target_arch = "bpf")]
#![no_std]
#![feature(core_intrinsics)]
#![expect(internal_features, reason = "atomic addition, see counts.rs")]

pub mod behind;
pub mod buffers;
pub mod counts;
pub mod kernel;
pub mod maps;
pub mod policies;
pub mod uapi;

// A loop, so that the verifier refuses a program in which a panic is reachable.
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
