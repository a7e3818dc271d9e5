//! An application's own options, where its policy overrides them: swallowed, as if
//! they had been set. Of those that it gets back when the policy goes, they are noted.
//!
//! Attached only while a policy asks for it: it runs at every setsockopt(2) of the
//! cgroup.

use aya_ebpf::{macros::cgroup_sockopt, programs::SockoptContext};
use wad_common::{
    flow::{
        Flow, Outcome, Own,
        option::{CONGESTION, MAX_PACING, RCVBUF, SNDBUF, TRAFFIC_CLASS},
    },
    policy::OVERRIDES,
};
use wad_ebpf::{
    maps::{self, OVERRIDDEN},
    policies,
    uapi::{
        IP_TOS, IPV6_TCLASS, SO_MAX_PACING_RATE, SO_RCVBUF, SO_RCVBUFFORCE, SO_SNDBUF,
        SO_SNDBUFFORCE, SOL_IP, SOL_IPV6, SOL_SOCKET, SOL_TCP, TCP_CONGESTION,
    },
};

use crate::socket::DSCP_MASK;

/// Has the kernel skip an option, and report success.
const SKIP: i32 = -1;
/// Has the kernel take the application's own bytes, not those that the program was
/// shown.
const AS_IT_WAS: i32 = 0;

#[cgroup_sockopt(setsockopt)]
pub fn wad_options(ctx: SockoptContext) -> i32 {
    let option = ctx.sockopt;
    // SAFETY: the context is valid for the program's run; the verifier checks each
    // access.
    unsafe {
        if is_overridden(&ctx, (*option).level, (*option).optname) {
            (*option).optlen = SKIP;
        } else {
            let shown = (*option).__bindgen_anon_3.optval_end as usize
                - (*option).__bindgen_anon_2.optval as usize;
            // Of a longer one than a page the kernel shows the beginning, and before
            // Linux 6.5 refuses it unless told.
            if (*option).optlen as usize > shown {
                (*option).optlen = AS_IT_WAS;
            }
        }
    }
    1
}

#[inline(always)]
fn is_overridden(ctx: &SockoptContext, level: i32, name: i32) -> bool {
    let option = match (level, name) {
        (SOL_SOCKET, SO_SNDBUF | SO_SNDBUFFORCE) => SNDBUF,
        (SOL_SOCKET, SO_RCVBUF | SO_RCVBUFFORCE) => RCVBUF,
        (SOL_SOCKET, SO_MAX_PACING_RATE) => MAX_PACING,
        (SOL_IP, IP_TOS) | (SOL_IPV6, IPV6_TCLASS) => TRAFFIC_CLASS,
        (SOL_TCP, TCP_CONGESTION) => CONGESTION,
        _ => return false,
    };
    // SAFETY: a field of the context, which the kernel never has null here.
    let sk = unsafe { (*ctx.sockopt).__bindgen_anon_1.sk };
    if sk.is_null() {
        return false;
    }
    // SAFETY: a socket of the kernel, whose lock is held.
    let Some(cookie) = (unsafe { maps::kept(&OVERRIDDEN, sk.cast()).as_ref() }) else {
        return false;
    };
    let Some(flow) = maps::flow(*cookie) else { return false };
    // One that grows is the path's before it is set, too.
    let grows = match option {
        SNDBUF => flow.sndbuf_grows(),
        RCVBUF => flow.rcvbuf_grows(),
        _ => false,
    };
    let is_ours = u32::from(flow.given) & option != 0 || grows && flow.is_tuned();
    if flow.outcome == Outcome::Ended as u32 || !is_ours {
        return false;
    }
    let is_overridden = policies::policy(policies::generation(), flow.policy)
        .is_some_and(|policy| policy.flags & OVERRIDES != 0);
    if !is_overridden {
        return false;
    }
    match option {
        MAX_PACING => note_rate(ctx, flow),
        TRAFFIC_CLASS => note_class(ctx, flow),
        _ => true,
    }
}

/// Notes a bound of the rate; false for one that the kernel is to judge, or that could not
/// be given back. It takes 64 bits where there are as many, and of 32 bits all ones for
/// none (`sk_setsockopt()`).
#[inline(always)]
fn note_rate(ctx: &SockoptContext, flow: &mut Flow) -> bool {
    let rate = match (value::<u64>(ctx), value::<u32>(ctx)) {
        (Some(rate), _) => rate,
        (None, Some(u32::MAX)) => u64::MAX,
        (None, Some(rate)) => rate.into(),
        (None, None) => return false,
    };
    if !Own::can_keep_rate(rate) {
        return false;
    }
    flow.own.max_pacing_bytes_per_second = rate;
    true
}

/// Notes a traffic class, of which one byte will do (`do_ip_setsockopt()`); false for one
/// that the kernel is to judge.
#[inline(always)]
fn note_class(ctx: &SockoptContext, flow: &mut Flow) -> bool {
    let class = match (value::<u32>(ctx), value::<u8>(ctx)) {
        (Some(class), _) => class,
        (None, Some(class)) => class.into(),
        (None, None) => return false,
    };
    flow.own.traffic_class = class & DSCP_MASK;
    true
}

/// The option's value, if it has so many bytes.
#[inline(always)]
fn value<T: Copy>(ctx: &SockoptContext) -> Option<T> {
    // SAFETY: fields of the context; the verifier checks that the value is within what
    // the kernel shows.
    unsafe {
        let start = (*ctx.sockopt).__bindgen_anon_2.optval as usize;
        let end = (*ctx.sockopt).__bindgen_anon_3.optval_end as usize;
        if start + size_of::<T>() > end {
            return None;
        }
        Some((start as *const T).read_unaligned())
    }
}
