//! What is kept with each matched flow, in the socket's own storage.

use crate::{policy::CONGESTION_BYTES, record};

/// The settings of a socket at one moment. Zero where the kernel did not say.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Congestion control, zero-terminated.
    pub congestion: [u8; CONGESTION_BYTES],
    /// SO_SNDBUF as the kernel reports it, doubled.
    pub sndbuf_bytes: u32,
    /// SO_RCVBUF as the kernel reports it, doubled.
    pub rcvbuf_bytes: u32,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Settings, size = 32);

/// Who opened the connection.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This host connected.
    Active = 0,
    /// This host accepted.
    Passive = 1,
}

/// What became of a matched flow. The kernel side stores it as a number.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// None yet, or none any more: the socket may make another connection. Zero,
    /// as new storage is.
    Ended = 0,
    /// Tuned as the policy says.
    Tuned = 1,
    /// At least one setting was refused by the kernel; the others hold.
    Partly = 2,
    /// Left alone: its buffers would exceed `limits.max_memory`.
    NoMemory = 3,
    /// Left alone: the path has its `max_flows` already.
    TooMany = 4,
    /// Left alone: the path's flows are only observed.
    Observed = 5,
}

/// Socket-local storage of a matched flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Memory reserved for it, given back when it closes.
    pub memory_bytes: u64,
    /// When it was matched, CLOCK_MONOTONIC.
    pub matched_ns: u64,
    /// When it was established; 0 before.
    pub established_ns: u64,
    /// Number of the policy set that it was matched with.
    pub generation: u64,
    /// Index of its policy.
    pub policy: u32,
    /// A [`Role`].
    pub role: u32,
    /// An [`Outcome`].
    pub outcome: u32,
    /// Congestion window that the policy gave it at the start; 0 for none.
    pub initial_window_segments: u32,
    /// Before anything was changed.
    pub before: Settings,
    /// After everything was changed.
    pub after: Settings,
}
record!(Flow, size = 112);

impl Flow {
    /// Whether it is tuned, at least partly.
    #[inline(always)]
    #[must_use]
    pub const fn is_tuned(&self) -> bool {
        self.outcome == Outcome::Tuned as u32 || self.outcome == Outcome::Partly as u32
    }
}
