//! Both sides of the kernel boundary share this: the records that the BPF programs
//! and the agent exchange through maps, and the control laws.
//!
//! No clock, no map, no log, no float: a law is given what it needs and returns
//! what it decides, so the same code runs in the kernel, in tests and in the
//! agent. Units are in the names.
#![no_std]
#![cfg_attr(not(feature = "user"), forbid(unsafe_code))]
#![deny(clippy::float_arithmetic, missing_docs)]

pub mod arrivals;
pub mod choices;
pub mod control;
pub mod counter;
pub mod defaults;
pub mod division;
pub mod event;
pub mod flow;
pub mod growth;
pub mod health;
pub mod instruments;
pub mod law;
pub mod memory;
pub mod mixed;
pub mod policy;
pub mod ports;
pub mod probe;
pub mod process;
pub mod progress;
pub mod recount;
pub mod refused;
pub mod saved;
pub mod scan;
pub mod senders;
pub mod share;
pub mod signals;
pub mod slots;
pub mod sock;
pub mod stats;
pub mod tcp_sock;

/// Fixes a record's size, and thereby that it has no implicit padding where the
/// fields add up to it, and lets the agent hand it to the kernel.
macro_rules! record {
    ($record:ty, size = $size:expr) => {
        const _: () = assert!(size_of::<$record>() == $size);

        // SAFETY: `repr(C)`, fixed-width integers only, valid for any bytes; the
        // assertion above leaves no room for padding.
        #[cfg(feature = "user")]
        unsafe impl aya::Pod for $record {}
    };
}
pub(crate) use record;
