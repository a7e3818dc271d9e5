//! The buffers of a socket, and what lies in them.

use wad_ebpf::kernel::Access;

use super::{Visited, offsets::offset};

/// `TCP_DEFAULT_SCALING_RATIO` (include/net/tcp.h): half of a receive buffer is
/// payload, before it is known better, and always before Linux 6.6.
const DEFAULT_SCALING_RATIO: u32 = 1 << 7;

impl<A: Access> Visited<A> {
    /// Returns what the other end may send still, having been told so
    /// (`tcp_receive_window()`).
    #[inline(always)]
    fn offered_bytes(&self) -> u32 {
        let end = self.number_at(offset!(rcv_wup)).wrapping_add(self.number_at(offset!(rcv_wnd)));
        let left = end.wrapping_sub(self.number_at(offset!(rcv_nxt)));
        if left as i32 > 0 { left } else { 0 }
    }

    /// Returns its buffers as the kernel keeps them, the one to send and the one to
    /// receive.
    #[inline(always)]
    pub fn buffers_bytes(&self) -> [u32; 2] {
        [self.number_at(offset!(sndbuf)), self.number_at(offset!(rcvbuf))]
    }

    /// Returns what data takes that lies in each of them.
    #[inline(always)]
    pub fn held_bytes(&self) -> [u32; 2] {
        [self.number_at(offset!(wmem_queued)), self.number_at(offset!(rmem_alloc))]
    }

    /// Returns up to where the kernel sizes each of them by itself, in its network
    /// namespace.
    #[inline(always)]
    pub fn autotuned_bytes(&self) -> [u32; 2] {
        let net = self.kernel().follow(offset!(net));
        let moderates = net.read::<u8>(offset!(net_moderate_rcvbuf)) != 0;
        let rcvbuf_bytes = if moderates { net.read(offset!(net_tcp_rmem)) } else { 0 };
        [net.read(offset!(net_tcp_wmem)), rcvbuf_bytes]
    }

    /// Returns what its application took in a round trip, at most so far.
    #[inline(always)]
    pub fn taken_bytes(&self) -> u32 {
        self.read(offset!(rcvq_space))
    }

    /// Returns the RTT as this end sees it by what it receives; 0 for none.
    #[inline(always)]
    pub fn receiving_rtt_us(&self) -> u32 {
        self.number_at(offset!(rcv_rtt)) >> 3
    }

    /// Whether data has arrived that lies behind a hole.
    #[inline(always)]
    pub fn has_hole(&self) -> bool {
        !self.kernel().follow(offset!(out_of_order)).is_null()
    }

    /// Returns the least receive buffer that holds what lies in it and what the other
    /// end was offered; or all of its buffer, where that is less.
    #[inline(always)]
    pub fn least_rcvbuf_bytes(&self) -> u32 {
        let held = u64::from(self.number_at(offset!(rmem_alloc)));
        let offered = u64::from(self.offered_bytes()) * 256 / u64::from(self.scaling_ratio());
        let has = self.number_at(offset!(rcvbuf));
        if held + offered < u64::from(has) { (held + offered) as u32 } else { has }
    }

    /// Payload in 256 bytes of its receive buffer.
    #[inline(always)]
    pub fn scaling_ratio(&self) -> u32 {
        match offset!(scaling_ratio) {
            0 => DEFAULT_SCALING_RATIO,
            offset => match self.read::<u8>(offset) {
                0 => DEFAULT_SCALING_RATIO,
                ratio => ratio.into(),
            },
        }
    }
}
