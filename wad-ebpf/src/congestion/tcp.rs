//! The kernel's `tcp_sock`, as far as a congestion control reads and writes it.

use core::ffi::c_void;

use wad_common::{
    law::{Aimd, Window},
    tcp_sock::TcpSockOffsets,
};

/// Set by the agent before the programs are loaded, and frozen.
#[unsafe(no_mangle)]
static TCP_SOCK: TcpSockOffsets = TcpSockOffsets {
    snd_cwnd: 0,
    snd_ssthresh: 0,
    snd_cwnd_clamp: 0,
    prior_cwnd: 0,
    max_packets_out: 0,
    is_cwnd_limited: 0,
    is_cwnd_limited_mask: 0,
    icsk_ca_priv: 0,
};

// Places in `icsk_ca_priv`, which holds nothing at `init` but what the last
// algorithm left; the kernel zeroes it then.
const CREDIT_Q16: u32 = 0;
const AIMD: u32 = 8;
const GENERATION: u32 = 16;

/// What the kernel passes to a struct_ops program: its callback's arguments.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Context(*const u64);

impl Context {
    #[inline(always)]
    pub fn argument(self, n: usize) -> u64 {
        // SAFETY: the verifier checks the load against the callback's type.
        unsafe { *self.0.add(n) }
    }
}

/// A socket whose lock is held, as in all callbacks used here.
pub struct Tcp(*mut u8);

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const TCP_SOCK.$field).read_volatile() }
    };
}

impl Tcp {
    #[inline(always)]
    pub fn of(ctx: Context) -> Self {
        Self(ctx.argument(0) as *mut u8)
    }

    #[inline(always)]
    pub fn socket(&self) -> *mut c_void {
        self.0.cast()
    }

    /// The window that the flow's use of it entitles it to: any, if it was held
    /// back when last its window was full; in slow start, twice what was out;
    /// else none. As `tcp_is_cwnd_limited()`, but for an ACK of many segments,
    /// which takes the kernel's own algorithms past the double.
    #[inline(always)]
    pub fn entitled_segments(&self) -> u32 {
        let flags: u8 = self.read(offset!(is_cwnd_limited));
        if u32::from(flags) & offset!(is_cwnd_limited_mask) != 0 {
            u32::MAX
        } else if self.cwnd_segments() < self.ssthresh_segments() {
            self.read::<u32>(offset!(max_packets_out)).saturating_mul(2)
        } else {
            0
        }
    }

    #[inline(always)]
    pub fn window(&self) -> Window {
        Window {
            cwnd_segments: self.cwnd_segments(),
            ssthresh_segments: self.ssthresh_segments(),
            clamp_segments: self.read(offset!(snd_cwnd_clamp)),
            credit_q16: self.private(CREDIT_Q16),
        }
    }

    #[inline(always)]
    pub fn cwnd_segments(&self) -> u32 {
        self.read(offset!(snd_cwnd))
    }

    #[inline(always)]
    pub fn set_cwnd_segments(&self, segments: u32) {
        self.write(offset!(snd_cwnd), segments);
    }

    #[inline(always)]
    pub fn prior_cwnd_segments(&self) -> u32 {
        self.read(offset!(prior_cwnd))
    }

    #[inline(always)]
    fn ssthresh_segments(&self) -> u32 {
        self.read(offset!(snd_ssthresh))
    }

    #[inline(always)]
    pub fn set_credit_q16(&self, credit_q16: u64) {
        self.set_private(CREDIT_Q16, credit_q16);
    }

    #[inline(always)]
    pub fn aimd(&self) -> Aimd {
        let both = self.private(AIMD);
        Aimd { increase_q16: both as u32, keep_q16: (both >> 32) as u32 }
    }

    #[inline(always)]
    pub fn set_aimd(&self, aimd: Aimd) {
        self.set_private(AIMD, u64::from(aimd.keep_q16) << 32 | u64::from(aimd.increase_q16));
    }

    /// Generation of the policy set that the parameters were read from.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.private(GENERATION)
    }

    #[inline(always)]
    pub fn set_generation(&self, generation: u64) {
        self.set_private(GENERATION, generation);
    }

    #[inline(always)]
    fn private(&self, place: u32) -> u64 {
        self.read(offset!(icsk_ca_priv) + place)
    }

    #[inline(always)]
    fn set_private(&self, place: u32, value: u64) {
        self.write(offset!(icsk_ca_priv) + place, value);
    }

    #[inline(always)]
    fn read<T: Copy>(&self, offset: u32) -> T {
        // SAFETY: the verifier checks the load against the kernel's BTF.
        unsafe { self.0.add(offset as usize).cast::<T>().read_volatile() }
    }

    #[inline(always)]
    fn write<T: Copy>(&self, offset: u32, value: T) {
        // SAFETY: the verifier allows stores to a congestion control's own
        // fields only (`bpf_tcp_ca_btf_struct_access()`).
        unsafe { self.0.add(offset as usize).cast::<T>().write_volatile(value) };
    }
}
