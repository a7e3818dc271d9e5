//! The options of a socket that can be set at any time, and the way back from what a
//! policy gave to what a flow has without one.

use wad_common::{
    flow::{Asks, Flow, option::CONGESTION},
    policy::NO_DELAYED_ACKS,
    refused::SocketSetting,
};

use crate::{
    own::{self, Unnoted},
    socket::Socket,
};

/// Sets those that the flow's policy asks for; its buffers and its congestion control
/// are set beside this.
#[inline(always)]
pub fn set(socket: &impl Socket, flow: &mut Flow) {
    Unnoted::MaxPacing.give(socket, flow);
    if flow.asks.flags & NO_DELAYED_ACKS != 0 {
        flow.refused.note(SocketSetting::DelayedAck, socket.set_delayed_acks(false));
    }
    Unnoted::NotsentLowat.give(socket, flow);
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
    if had.flags & !next.flags & NO_DELAYED_ACKS != 0 {
        let _ = socket.set_delayed_acks(true);
    }
    own::take_back(socket, flow, had, next);
}
