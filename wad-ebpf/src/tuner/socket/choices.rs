//! An application has set these by itself.

use wad_common::{
    choices::ChoiceOffsets,
    flow::option::{CONGESTION, RCVBUF, SNDBUF},
};
use wad_ebpf::kernel::Access;

use super::Visited;

/// The agent sets it before the programs are loaded, and freezes it.
#[unsafe(no_mangle)]
static CHOICES: ChoiceOffsets =
    ChoiceOffsets { userlocks: u32::MAX, userlocks_shift: 0, congestion: 0, congestion_mask: 0 };

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const CHOICES.$field).read_volatile() }
    };
}

impl<A: Access> Visited<A> {
    /// Returns the options that somebody has set: the application, or a policy.
    #[inline(always)]
    pub fn choices(&self) -> u32 {
        let byte = |offset: u32| u32::from(self.kernel().read::<u8>(offset));
        let buffers = byte(offset!(userlocks)) >> (offset!(userlocks_shift) & 7);
        let has_congestion = byte(offset!(congestion)) & offset!(congestion_mask) != 0;
        buffers & (SNDBUF | RCVBUF) | if has_congestion { CONGESTION } else { 0 }
    }
}
