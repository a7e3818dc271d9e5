//! An application's own options, where its policy overrides them: swallowed, as if
//! they had been set.
//!
//! Attached only while a policy asks for it: it runs at every setsockopt(2) of the
//! cgroup.

use aya_ebpf::{macros::cgroup_sockopt, programs::SockoptContext};
use wad_common::{
    flow::{
        Outcome,
        option::{CONGESTION, RCVBUF, SNDBUF},
    },
    policy::OVERRIDES,
};
use wad_ebpf::{maps, policies};

// include/uapi/asm-generic/socket.h, include/linux/socket.h, uapi/linux/tcp.h
const SOL_SOCKET: i32 = 1;
const SOL_TCP: i32 = 6;
const SO_SNDBUF: i32 = 7;
const SO_RCVBUF: i32 = 8;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
const TCP_CONGESTION: i32 = 13;

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
        (SOL_TCP, TCP_CONGESTION) => CONGESTION,
        _ => return false,
    };
    // SAFETY: a field of the context, which the kernel never has null here.
    let sk = unsafe { (*ctx.sockopt).__bindgen_anon_1.sk };
    if sk.is_null() {
        return false;
    }
    // SAFETY: a socket of the kernel.
    let Some(flow) = (unsafe { maps::flow(sk.cast()) }) else { return false };
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
    policies::policy(policies::generation(), flow.policy)
        .is_some_and(|policy| policy.flags & OVERRIDES != 0)
}
