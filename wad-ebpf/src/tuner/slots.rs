//! The slots of flows: an array of their cookies, which scans go over up to where any may be in use.
//!
//! A flow takes a free slot among a few that its cookie leads to. Where these are taken, twice as
//! many slots come into use: so there are some four times as many as there were flows at most, and a
//! few more with each million of connections. A slot is taken and given back without a lock.

use core::intrinsics::{AtomicOrdering, atomic_cxchg};

use wad_common::{
    counter::Setting,
    slots::{FIRST_SLOTS, TRIES, slot},
};
use wad_ebpf::maps::{SETTINGS, SLOTS};

/// More slots come into use so often, up to a thousand times as many.
const DOUBLINGS: u32 = 10;

/// Takes a slot for the flow with this cookie. Returns its number, counted from 1; None where all
/// that it could have are taken: with as many flows as there is room for, one of 65,536.
#[inline(never)]
pub fn take(cookie: u64) -> Option<u32> {
    let setting = SETTINGS.get_ptr_mut(Setting::Slots as u32)?;
    for _ in 0..=DOUBLINGS {
        // SAFETY: an aligned u64 in a map, valid for the program's run.
        let in_use = unsafe { setting.read_volatile() };
        let slots = if in_use == 0 { FIRST_SLOTS } else { in_use };
        for tried in 0..TRIES {
            let slot = slot(cookie, tried, slots) as u32;
            let place = SLOTS.get_ptr_mut(slot)?;
            if replace(place, 0, cookie) == 0 {
                if in_use == 0 {
                    replace(setting, 0, FIRST_SLOTS);
                }
                return Some(slot + 1);
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
    if let Some(place) = SLOTS.get_ptr_mut(slot.wrapping_sub(1)) {
        // SAFETY: an aligned store of 64 bits is a single one.
        unsafe { place.write_volatile(0) };
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
