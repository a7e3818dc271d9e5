//! The kernel's `rate_sample`: what one ACK told, as `cong_control` gets it.

use core::hint::black_box;

use wad_common::{law::Sample, tcp_sock::RateSampleOffsets};

use crate::{context::Context, tcp::Tcp};

/// The agent sets it before the programs are loaded, and freezes it.
#[unsafe(no_mangle)]
static RATE_SAMPLE: RateSampleOffsets =
    RateSampleOffsets { argument: u32::MAX, rtt_us: 0, losses: 0, acked_sacked: 0 };

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const RATE_SAMPLE.$field).read_volatile() }
    };
}

#[derive(Clone, Copy)]
pub struct RateSample(*const u8);

impl RateSample {
    #[inline(always)]
    pub fn of(ctx: Context) -> Self {
        // Of the two only one is there, and the verifier follows only that. Nothing
        // can be done in common after the barrier, or there would be one load from
        // either of two addresses: "dereference of modified ctx ptr" (Linux 6.18).
        if offset!(argument) == 1 {
            Self(black_box(ctx.argument(1)) as *const u8)
        } else {
            Self(ctx.argument(3) as *const u8)
        }
    }

    /// Returns what a law learns from the ACK, with what the flow itself tells.
    #[inline(always)]
    pub fn told_of(self, tcp: Tcp) -> Sample {
        Sample {
            now_us: tcp.now_us(),
            rtt_us: self.rtt_us(),
            acked_segments: self.acked_segments(),
            delivered_segments: tcp.delivered_segments(),
            in_flight_segments: tcp.in_flight_segments(),
            entitled_segments: tcp.entitled_segments(),
            is_reducing: tcp.is_reducing(),
        }
    }

    /// RTT of the segment acknowledged last; None where it was retransmitted.
    #[inline(always)]
    fn rtt_us(self) -> Option<u32> {
        let rtt_us: i64 = self.read(offset!(rtt_us));
        if rtt_us > 0 { Some(rtt_us as u32) } else { None }
    }

    /// Segments newly deemed lost.
    #[inline(always)]
    pub fn lost_segments(self) -> u32 {
        self.read(offset!(losses))
    }

    /// Segments newly delivered.
    #[inline(always)]
    pub fn acked_segments(self) -> u32 {
        self.read(offset!(acked_sacked))
    }

    #[inline(always)]
    fn read<T: Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier checks the load against the kernel's BTF.
        unsafe { self.0.add(offset as usize).cast::<T>().read_volatile() }
    }
}
