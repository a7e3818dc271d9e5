//! The slots of flows: an array of their cookies, which scans go over up to where any may be in use.
//!
//! A flow takes a free slot among a few that its cookie leads to. Where these are taken, twice as
//! many slots come into use: so there are two or three times as many as there were flows at most. A
//! slot is taken and given back without a lock.

use core::intrinsics::{AtomicOrdering, atomic_cxchg};

use wad_common::{
    counter::Setting,
    slots::{FIRST_SLOTS, TRIES, slot},
};
use wad_ebpf::maps::{SETTINGS, SLOTS};

/// More slots come into use once for a flow at most: half of them are free then.
const DOUBLINGS: u32 = 1;

/// Takes a slot for the flow with this cookie, whose `struct tcp_sock` has this address. Returns the
/// slot's number, counted from 1; None where all that the flow could have are taken. As there are
/// twice as many slots as there is room for flows, that is not to be seen.
#[inline(never)]
pub fn take(cookie: u64, socket: u64) -> Option<u32> {
    let setting = SETTINGS.get_ptr_mut(Setting::Slots as u32)?;
    for _ in 0..=DOUBLINGS {
        // SAFETY: an aligned u64 in a map, valid for the program's run.
        let in_use = unsafe { setting.read_volatile() };
        let slots = if in_use == 0 { FIRST_SLOTS } else { in_use };
        for tried in 0..TRIES {
            let number = slot(cookie, tried, slots) as u32;
            let slot = SLOTS.get_ptr_mut(number)?;
            // SAFETY: the slot is an element of the map, valid for the program's run.
            let (place, address) = unsafe { (&raw mut (*slot).cookie, &raw mut (*slot).socket) };
            // SAFETY: as above.
            let is_free = unsafe { place.read_volatile() } == 0;
            if is_free && replace(place, 0, cookie) == 0 {
                // SAFETY: as above.
                unsafe { address.write_volatile(socket) };
                if in_use == 0 {
                    replace(setting, 0, FIRST_SLOTS);
                }
                return Some(number + 1);
            }
        }
        let more = 2 * slots;
        // The map has its end somewhere.
        SLOTS.get_ptr_mut((more - 1) as u32)?;
        // Another may have doubled them meanwhile, which will do.
        replace(setting, in_use, more);
    }
    None
}

/// Frees a slot, by the number that [`take`] has returned.
#[inline(always)]
pub fn give_back(slot: u32) {
    if let Some(slot) = SLOTS.get_ptr_mut(slot.wrapping_sub(1)) {
        // SAFETY: an aligned store of 64 bits is a single one.
        unsafe { (&raw mut (*slot).cookie).write_volatile(0) };
    }
}

/// Returns how many slots may be in use.
#[inline(always)]
pub fn in_use() -> u64 {
    SETTINGS.get(Setting::Slots as u32).copied().unwrap_or(0)
}

/// Stores `to` if the number there is `from` (compare and exchange). Returns the number as it was
/// before.
#[inline(always)]
fn replace(place: *mut u64, from: u64, to: u64) -> u64 {
    // SAFETY: an aligned u64 in a map, valid for the program's run.
    let (before, _) = unsafe {
        atomic_cxchg::<_, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(place, from, to)
    };
    before
}
