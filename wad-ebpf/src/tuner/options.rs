//! The options of a socket that can be set at any time, and the way back from what a
//! policy gave to what a flow has without one.

use wad_common::{
    flow::{
        Asks, Flow,
        option::{CONGESTION, NOTSENT_LOWAT},
    },
    policy::{NO_DELAYED_ACKS, OVERRIDES},
    refused::SocketSetting,
};

use crate::socket::Socket;

// include/linux/socket.h, uapi/linux/tcp.h
const SOL_TCP: i32 = 6;
const TCP_NOTSENT_LOWAT: i32 = 25;

/// Sets those that the flow's policy asks for; its buffers and its congestion control
/// are set beside this.
#[inline(always)]
pub fn set(socket: &impl Socket, flow: &mut Flow) {
    bound_rate(socket, flow);
    if flow.asks.flags & NO_DELAYED_ACKS != 0 {
        flow.refused.note(SocketSetting::DelayedAck, socket.set_delayed_acks(false));
    }
    if flow.asks.notsent_lowat_bytes != 0 {
        bound_unsent(socket, flow);
    }
}

/// Bounds the rate, where the flow's policy does, by its part of that.
#[inline(always)]
pub fn bound_rate(socket: &impl Socket, flow: &mut Flow) {
    if flow.asks.max_pacing_bytes_per_second != 0 {
        let set = socket.set_max_pacing_rate(flow.max_pacing_bytes_per_second());
        flow.refused.note(SocketSetting::Pacing, set);
    }
}

/// Bounds what the flow takes and has not sent, unless the application has done so: the
/// kernel has 0 for a socket on which nobody has.
#[inline(always)]
fn bound_unsent(socket: &impl Socket, flow: &mut Flow) {
    let is_given = u32::from(flow.given) & NOTSENT_LOWAT != 0;
    let is_overridden = flow.asks.flags & OVERRIDES != 0;
    if !is_given && !is_overridden && socket.number(SOL_TCP, TCP_NOTSENT_LOWAT) != 0 {
        return;
    }
    let set = socket.set_number(SOL_TCP, TCP_NOTSENT_LOWAT, flow.asks.notsent_lowat_bytes);
    if set.is_ok() {
        flow.given |= NOTSENT_LOWAT as u16;
    }
    flow.refused.note(SocketSetting::NotsentLowat, set);
}

/// Takes back what a policy gave, as far as the next one has nothing in its
/// place. Buffers stay: there is no way back to those that the kernel sizes.
#[inline(always)]
pub fn undo(socket: &impl Socket, flow: &mut Flow, had: &Asks, next: &Asks) {
    if u32::from(flow.given) & CONGESTION != 0 && next.congestion[0] == 0 {
        // One that the application had chosen, or the namespace's default. That it is
        // gone is no harm. A law of ours is what an agent before this one gave.
        let before = &flow.before.congestion;
        let is_known = before[0] != 0 && !before.starts_with(b"wad_");
        if !is_known || socket.set_congestion(before).is_err() {
            let _ = socket.set_congestion(&socket.default_congestion());
        }
        // The kernel notes it as a choice: it is not the application's.
        socket.read_congestion(&mut flow.after.congestion);
    }
    if had.max_pacing_bytes_per_second != 0 && next.max_pacing_bytes_per_second == 0 {
        let _ = socket.set_max_pacing_rate(u32::MAX);
    }
    if had.flags & !next.flags & NO_DELAYED_ACKS != 0 {
        let _ = socket.set_delayed_acks(true);
    }
    if had.traffic_class != 0 && next.traffic_class == 0 {
        let _ = socket.set_traffic_class(0);
    }
    if u32::from(flow.given) & NOTSENT_LOWAT != 0 {
        // Anything else the application has set since.
        if socket.number(SOL_TCP, TCP_NOTSENT_LOWAT) != had.notsent_lowat_bytes {
            flow.given &= !(NOTSENT_LOWAT as u16);
        } else if next.notsent_lowat_bytes == 0 {
            let _ = socket.set_number(SOL_TCP, TCP_NOTSENT_LOWAT, 0);
            flow.given &= !(NOTSENT_LOWAT as u16);
        }
    }
}
