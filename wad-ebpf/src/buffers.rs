//! A flow's two buffers, by what its policy asks and what is left of memory: what the
//! tuner's visits and the congestion control's ACKs both go by.

use wad_common::{
    flow::{
        Flow,
        option::{RCVBUF, SNDBUF},
    },
    growth::{Buffer, IS_FIXED, KEEPS_BOUND, MAY_GROW},
    policy::OVERRIDES,
    refused::SocketSetting,
};

use crate::counts;

/// One of the two, as far as the flow's state has it.
pub struct Kind {
    option: u32,
    grows: bool,
    /// Argument of SO_SNDBUF or SO_RCVBUF.
    asked_bytes: u32,
    after_bytes: u32,
    is_refused: bool,
}

impl Kind {
    #[inline(always)]
    #[must_use]
    pub fn send(flow: &Flow) -> Self {
        Self {
            option: SNDBUF,
            grows: flow.sndbuf_grows(),
            asked_bytes: flow.sndbuf_bytes(),
            after_bytes: flow.after.sndbuf_bytes,
            is_refused: flow.refused.reasons[SocketSetting::Sndbuf as usize] != 0,
        }
    }

    #[inline(always)]
    #[must_use]
    pub fn receive(flow: &Flow) -> Self {
        Self {
            option: RCVBUF,
            grows: flow.rcvbuf_grows(),
            asked_bytes: flow.rcvbuf_bytes(),
            after_bytes: flow.after.rcvbuf_bytes,
            is_refused: flow.refused.reasons[SocketSetting::Rcvbuf as usize] != 0,
        }
    }
}

/// The same one, as the socket has it.
pub struct Now {
    pub has_bytes: u32,
    pub needs_bytes: u64,
    /// Up to here the kernel would size it by itself.
    pub autotuned_bytes: u32,
    /// Somebody has set its size: the kernel sizes it no more.
    pub is_locked: bool,
}

/// Returns what is to become of it. One that is not the path's to size has nothing and may
/// have nothing, so nothing comes of it: of an `Option` the compiler may read what is not
/// there before it knows, which kernels before Linux 6.3 refuse ("invalid read from stack").
#[inline(always)]
#[must_use]
pub fn buffer(flow: &Flow, kind: &Kind, now: &Now) -> Buffer {
    const LEFT_ALONE: Buffer = Buffer {
        has_bytes: 0,
        needs_bytes: 0,
        most_bytes: 0,
        least_bytes: 0,
        kernel_bytes: 0,
        flags: 0,
    };
    let &Now { has_bytes, needs_bytes, autotuned_bytes, is_locked } = now;
    let overrides = flow.asks.flags & OVERRIDES != 0;
    let is_given = u32::from(flow.given) & kind.option != 0;
    // A size that somebody else has set is the application's.
    let is_ours = is_given && has_bytes == kind.after_bytes || overrides;
    if kind.asked_bytes == 0 || kind.is_refused || is_locked && !is_ours {
        return LEFT_ALONE;
    }
    if !kind.grows && !is_given {
        return LEFT_ALONE;
    }
    // One of a given size is what the operator says, whatever memory there is.
    let cap_bytes = if kind.grows { counts::cap_bytes(flow) } else { u32::MAX };
    let most_bytes = kind.asked_bytes.saturating_mul(2).min(cap_bytes);
    let mut flags = 0;
    if is_locked || flow.divides() || has_bytes > cap_bytes {
        flags |= KEEPS_BOUND;
    }
    if !kind.grows {
        flags |= IS_FIXED;
    }
    if counts::may_grow(flow) {
        flags |= MAY_GROW;
    }
    let kernel_bytes = if is_locked { 0 } else { autotuned_bytes };
    Buffer { has_bytes, needs_bytes, most_bytes, least_bytes: 0, kernel_bytes, flags }
}
