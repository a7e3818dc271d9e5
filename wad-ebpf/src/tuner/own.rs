//! The options that a policy and an application both may set, and of which the kernel
//! does not note who has. An application that has set one keeps it, be it before or after
//! the policy came. Where a path overrides that, it gets its own back with the policy's end.

use wad_common::{
    division::part_of_bound,
    flow::{
        Asks, Flow, Own,
        option::{MAX_PACING, NOTSENT_LOWAT, TRAFFIC_CLASS},
    },
    policy::{OVERRIDES, PACED},
    refused::SocketSetting,
};
use wad_ebpf::uapi::{SOL_TCP, TCP_NOTSENT_LOWAT};

use crate::socket::{DSCP_MASK, Socket};

/// include/uapi/asm-generic/errno.h
const ERANGE: i32 = 34;

/// One of those options. Its values are as a socket has them.
#[derive(Clone, Copy)]
pub enum Unnoted {
    MaxPacing,
    TrafficClass,
    NotsentLowat,
}

impl Unnoted {
    #[inline(always)]
    const fn bit(self) -> u32 {
        match self {
            Self::MaxPacing => MAX_PACING,
            Self::TrafficClass => TRAFFIC_CLASS,
            Self::NotsentLowat => NOTSENT_LOWAT,
        }
    }

    #[inline(always)]
    const fn setting(self) -> SocketSetting {
        match self {
            Self::MaxPacing => SocketSetting::Pacing,
            Self::TrafficClass => SocketSetting::Dscp,
            Self::NotsentLowat => SocketSetting::NotsentLowat,
        }
    }

    /// Returns what a policy asks of one of so many flows that divide it, 0 for nothing.
    #[inline(always)]
    const fn asked(self, asks: &Asks, flows: u32) -> u32 {
        match self {
            Self::MaxPacing => part_of_bound(asks.max_pacing_bytes_per_second, flows),
            Self::TrafficClass => asks.traffic_class,
            Self::NotsentLowat => asks.notsent_lowat_bytes,
        }
    }

    /// Returns what a socket has that was given this.
    #[inline(always)]
    fn value_of(self, asked: u32) -> u64 {
        match self {
            Self::MaxPacing if asked == PACED => u64::MAX,
            Self::TrafficClass => u64::from(asked & DSCP_MASK),
            Self::MaxPacing | Self::NotsentLowat => asked.into(),
        }
    }

    /// Returns what a socket has on which nobody has set it.
    #[inline(always)]
    const fn unset(self) -> u64 {
        match self {
            Self::MaxPacing => u64::MAX,
            Self::TrafficClass | Self::NotsentLowat => 0,
        }
    }

    #[inline(always)]
    fn read(self, socket: &impl Socket) -> u64 {
        match self {
            Self::MaxPacing => socket.max_pacing_rate(),
            Self::TrafficClass => socket.traffic_class().into(),
            Self::NotsentLowat => socket.number(SOL_TCP, TCP_NOTSENT_LOWAT).into(),
        }
    }

    #[inline(always)]
    fn set(self, socket: &impl Socket, asked: u32) -> Result<(), i32> {
        match self {
            Self::MaxPacing => socket.set_max_pacing_rate(asked),
            Self::TrafficClass => socket.set_traffic_class(asked & DSCP_MASK),
            Self::NotsentLowat => socket.set_number(SOL_TCP, TCP_NOTSENT_LOWAT, asked),
        }
    }

    /// Sets it to the application's own.
    #[inline(always)]
    fn put_back(self, socket: &impl Socket, flow: &Flow) {
        let own = &flow.own;
        // What was there fits, and fails only with the socket.
        let _ = match self {
            Self::MaxPacing if own.max_pacing_bytes_per_second == u64::MAX => {
                socket.lift_max_pacing_rate()
            }
            Self::MaxPacing => socket.set_max_pacing_rate(own.max_pacing_bytes_per_second as u32),
            Self::TrafficClass => socket.set_traffic_class(own.traffic_class),
            Self::NotsentLowat => {
                socket.set_number(SOL_TCP, TCP_NOTSENT_LOWAT, own.notsent_lowat_bytes)
            }
        };
    }

    /// Keeps the application's own. Of a rate that BPF programs cannot give back, which is
    /// beyond 32 bits, it does not.
    #[inline(always)]
    fn keep(self, flow: &mut Flow, own: u64) -> Result<(), i32> {
        match self {
            Self::MaxPacing => {
                if !Own::can_keep_rate(own) {
                    return Err(-ERANGE);
                }
                flow.own.max_pacing_bytes_per_second = own;
            }
            Self::TrafficClass => flow.own.traffic_class = own as u32,
            Self::NotsentLowat => flow.own.notsent_lowat_bytes = own as u32,
        }
        Ok(())
    }

    /// Gives what the flow's policy asks, if the application has nothing of its own.
    #[inline(always)]
    pub fn give(self, socket: &impl Socket, flow: &mut Flow) {
        let flows = flow.division.window_flows;
        let asked = self.asked(&flow.asks, flows);
        let bit = self.bit() as u16;
        if asked == 0 {
            flow.given &= !bit;
            return;
        }
        let mut set = Ok(());
        if flow.given & bit == 0 {
            let own = self.read(socket);
            if own != self.unset() {
                flow.chosen |= bit;
            }
            if flow.chosen & bit != 0 && flow.asks.flags & OVERRIDES == 0 {
                return;
            }
            set = self.keep(flow, own);
        }
        if set.is_ok() {
            set = self.set(socket, asked);
        }
        if set.is_ok() {
            flow.given |= bit;
            if matches!(self, Self::MaxPacing) {
                flow.division.rate_flows = flows;
            }
        }
        flow.refused.note(self.setting(), set);
    }

    /// Takes back what a policy gave, unless the next one has another in its place; and
    /// notes if it is the application's by now.
    #[inline(always)]
    fn take_back(self, socket: &impl Socket, flow: &mut Flow, had: &Asks, next: &Asks) {
        let bit = self.bit() as u16;
        if flow.given & bit == 0 {
            return;
        }
        if self.read(socket) != self.value_of(self.asked(had, flow.division.rate_flows)) {
            flow.given &= !bit;
            flow.chosen |= bit;
        } else if self.asked(next, 0) == 0 {
            self.put_back(socket, flow);
            flow.given &= !bit;
        }
    }
}

/// Takes back what a policy gave of these options, as far as the next one has nothing in
/// its place.
#[inline(always)]
pub fn take_back(socket: &impl Socket, flow: &mut Flow, had: &Asks, next: &Asks) {
    Unnoted::MaxPacing.take_back(socket, flow, had, next);
    Unnoted::TrafficClass.take_back(socket, flow, had, next);
    Unnoted::NotsentLowat.take_back(socket, flow, had, next);
}
