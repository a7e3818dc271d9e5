//! Buffers that grow with need: where the kernel's own autotuning ends, and up to what
//! the path says. Sizes are in bytes as the kernel keeps them (`sk_sndbuf`,
//! `sk_rcvbuf`): twice the argument of SO_SNDBUF or SO_RCVBUF.

use crate::record;

/// A buffer of a flow at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// It has this size.
    pub has_bytes: u32,
    /// The flow can use so much now.
    pub needs_bytes: u64,
    /// Most that it may have.
    pub most_bytes: u32,
    /// It has to hold so much now, whatever it may have: it shrinks no further.
    pub least_bytes: u32,
    /// Up to here the kernel sizes it by itself; 0 where it does not.
    pub kernel_bytes: u32,
    /// The flags say whether it keeps what it has beyond `most_bytes`, and who sizes it:
    /// [`KEEPS_BOUND`], [`IS_FIXED`] and [`MAY_GROW`].
    pub flags: u32,
}

/// It gives back what it has beyond its bound. One that the kernel has sized by itself,
/// and nobody divides, need not.
pub const KEEPS_BOUND: u32 = 1 << 0;
/// It is to have all that it may have, whatever the flow needs and whatever memory there is.
pub const IS_FIXED: u32 = 1 << 1;
/// There is memory for one that grows with need.
pub const MAY_GROW: u32 = 1 << 2;

impl Buffer {
    /// Returns the size that it is to get now; None to leave it as it is.
    ///
    /// It grows by a quarter at least, so that it is set a few times in its life, and
    /// doubles at most: the kernel's own grow so, once in a round trip time
    /// (`tcp_rcv_space_adjust()`, `tcp_sndbuf_expand()`). It is left to the kernel until
    /// three quarters of what that gives are reached.
    #[inline(always)]
    #[must_use]
    pub const fn next_bytes(&self) -> Option<u32> {
        let Self { has_bytes, needs_bytes, most_bytes, least_bytes, kernel_bytes, flags } = *self;
        if has_bytes > most_bytes {
            // It goes down to what it has to hold, again and again, but not for a little.
            let is_near = has_bytes - has_bytes / 64 <= least_bytes;
            let is_due = least_bytes <= most_bytes || !is_near;
            return if flags & KEEPS_BOUND != 0 && is_due { Some(most_bytes) } else { None };
        }
        if has_bytes == most_bytes {
            return None;
        }
        if flags & IS_FIXED != 0 {
            return Some(most_bytes);
        }
        if flags & MAY_GROW == 0 {
            return None;
        }
        let is_kernels = kernel_bytes >= most_bytes || has_bytes < kernel_bytes / 4 * 3;
        if is_kernels || needs_bytes <= has_bytes as u64 {
            return None;
        }
        let doubled_bytes = has_bytes.saturating_mul(2);
        let next_bytes = if doubled_bytes < most_bytes { doubled_bytes } else { most_bytes };
        if needs_bytes >= next_bytes as u64 {
            return Some(next_bytes);
        }
        let needs_bytes = needs_bytes as u32;
        if needs_bytes - has_bytes > has_bytes / 4 { Some(needs_bytes) } else { None }
    }

    /// Whether it is to have another size sooner or later, if its flow goes on.
    #[inline(always)]
    #[must_use]
    pub const fn is_to_change(&self) -> bool {
        let Self { has_bytes, most_bytes, flags, .. } = *self;
        let grows = flags & IS_FIXED == 0 && has_bytes < most_bytes;
        grows || flags & KEEPS_BOUND != 0 && has_bytes > most_bytes
    }

    /// Whether it has the size that memory allows, and no given one.
    #[inline(always)]
    #[must_use]
    pub const fn grows(&self) -> bool {
        self.most_bytes != 0 && self.flags & IS_FIXED == 0
    }

    /// Returns by how much it would grow now if there were memory.
    #[inline(always)]
    #[must_use]
    pub const fn wants_bytes(&self) -> u32 {
        let free = Self { flags: self.flags | MAY_GROW, ..*self };
        match free.next_bytes() {
            Some(next_bytes) => next_bytes.saturating_sub(self.has_bytes),
            None => 0,
        }
    }
}

/// Bytes of a segment's headers, and of the kernel's own beside its payload
/// (`MAX_TCP_HEADER` and `struct skb_shared_info`, each with its alignment).
const SEGMENT_OVERHEAD_BYTES: u32 = 640;
/// `struct sk_buff`, aligned.
const BUFFER_HEAD_BYTES: u32 = 256;

/// Returns what the send buffer of a flow with this window needs: two windows of
/// segments of their own, as `tcp_sndbuf_expand()` has it. One is on its way, the other
/// is there to follow it.
#[inline(always)]
#[must_use]
pub const fn send_needs_bytes(cwnd_segments: u32, mss_bytes: u32) -> u64 {
    // An MSS has 16 bits; not checked by the type.
    let payload_bytes = (mss_bytes & 0xffff) + SEGMENT_OVERHEAD_BYTES;
    let segment_bytes = power_of_two(payload_bytes) + BUFFER_HEAD_BYTES;
    2 * cwnd_segments as u64 * segment_bytes as u64
}

/// The least power of two that is no less than a number of 17 bits. (There is no
/// instruction that counts leading zeros.)
#[inline(always)]
const fn power_of_two(number: u32) -> u32 {
    let mut ones = number.saturating_sub(1);
    ones |= ones >> 1;
    ones |= ones >> 2;
    ones |= ones >> 4;
    ones |= ones >> 8;
    ones |= ones >> 16;
    ones + 1
}

/// Returns what the receive buffer of a flow needs whose application took so many bytes
/// in a round trip, where that part of 256 of a buffer is payload. What is known is a
/// round trip late, and the agent may see it another one later; and the other end may
/// double what it sends in each: eight times it.
#[inline(always)]
#[must_use]
pub const fn receive_needs_bytes(taken_bytes: u32, payload_of_256: u32) -> u64 {
    let payload_of_256 = if payload_of_256 == 0 { 1 } else { payload_of_256 };
    8 * taken_bytes as u64 * 256 / payload_of_256 as u64
}

/// A flow's part in the memory of all of them, as the agent reads it now and then.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Its path, and the cgroup that its socket is of.
    pub holder: Holder,
    /// Inode of its network namespace.
    pub netns: u32,
    /// [`WANTS_VISIT`], [`CHANGES_STILL`] and [`STARTS`].
    pub flags: u32,
    /// Memory that data takes which it has still to send, or have acknowledged.
    pub sends_bytes: u32,
    /// Memory that data takes which its application has still to read.
    pub receives_bytes: u32,
    /// Bytes by which its buffers would grow now, if there is memory.
    pub wants_bytes: u32,
    /// The larger of those of its buffers that grow holds so much: a bound on memory can
    /// shrink it. 0 where none does.
    pub largest_growing_bytes: u32,
}
record!(Holding, size = 40);

impl Holding {
    /// Returns the memory that its data takes.
    #[must_use]
    pub const fn holds_bytes(&self) -> u64 {
        self.sends_bytes as u64 + self.receives_bytes as u64
    }
}

/// A holder has one part of the memory, whatever its flows: those of a path in a cgroup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The cgroup's number; 0 where the kernel does not say.
    pub cgroup: u64,
    /// Index of the path's policy.
    pub policy: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Holder, size = 16);

/// The room that there is for the buffers of a holder's flows while memory is short. A
/// flow's state has it as a number.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// No buffer has more than the cap. Zero: a new flow's, until it is looked at.
    Cut = 0,
    /// Buffers stay as they are.
    Kept = 1,
    /// They grow with need.
    Free = 2,
}

/// A visit would change its buffers.
pub const WANTS_VISIT: u32 = 1 << 0;
/// They are below what they may grow to, or above what they may keep.
pub const CHANGES_STILL: u32 = 1 << 1;
/// It is in slow start, on a path whose flows share what it carries: it goes on up to
/// its part, and others that send make that smaller.
pub const STARTS: u32 = 1 << 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u32 = 1 << 20;
    const SEND: Buffer = Buffer {
        has_bytes: 4 * MIB,
        needs_bytes: 5 << 20,
        most_bytes: 24 * MIB,
        least_bytes: 0,
        kernel_bytes: 4 * MIB,
        flags: MAY_GROW,
    };

    #[test]
    fn it_grows_where_the_kernel_ends_by_what_is_needed() {
        let needs = |needs_bytes| Buffer { needs_bytes, ..SEND }.next_bytes();
        assert_eq!(needs(4 << 20), None);
        assert_eq!(needs(5 << 20), None);
        assert_eq!(needs((5 << 20) + 1), Some(5 * MIB + 1));
        assert_eq!(needs(1 << 40), Some(8 * MIB));
        // The last step may be a small one.
        let almost = Buffer { has_bytes: 23 * MIB, needs_bytes: 1 << 30, ..SEND };
        assert_eq!(almost.next_bytes(), Some(24 * MIB));
    }

    #[test]
    fn before_that_it_is_the_kernels() {
        let early = Buffer { has_bytes: 3 * MIB - 1, needs_bytes: 1 << 30, ..SEND };
        assert_eq!(early.next_bytes(), None);
        assert_eq!(Buffer { has_bytes: 3 * MIB, ..early }.next_bytes(), Some(6 * MIB));
        // Where the kernel gives as much, it stays so.
        assert_eq!(
            Buffer { kernel_bytes: 24 * MIB, needs_bytes: 1 << 30, ..SEND }.next_bytes(),
            None
        );
        let ours = Buffer { kernel_bytes: 0, has_bytes: 100_000, ..early };
        assert_eq!(ours.next_bytes(), Some(200_000));
    }

    #[test]
    fn it_goes_back_to_its_bound_where_it_has_to() {
        let large = Buffer { has_bytes: 32 * MIB, flags: 0, ..SEND };
        assert_eq!(large.next_bytes(), None);
        assert_eq!(Buffer { flags: KEEPS_BOUND, ..large }.next_bytes(), Some(24 * MIB));
        let little = Buffer { has_bytes: 24 * MIB + 1, flags: KEEPS_BOUND, ..large };
        assert_eq!(little.next_bytes(), Some(24 * MIB));
        assert!(little.is_to_change() && !large.is_to_change());
    }

    #[test]
    fn it_shrinks_no_further_than_it_has_to_hold() {
        let shrinks = |least_bytes| Buffer {
            has_bytes: 32 * MIB,
            least_bytes,
            flags: IS_FIXED | KEEPS_BOUND | MAY_GROW,
            ..SEND
        };
        assert_eq!(shrinks(32 * MIB).next_bytes(), None);
        assert_eq!(shrinks(32 * MIB - MIB / 2).next_bytes(), None);
        // It is asked for its bound, and gets what it has to hold.
        assert_eq!(shrinks(32 * MIB - MIB / 2 - 1).next_bytes(), Some(24 * MIB));
        assert!(shrinks(32 * MIB).is_to_change());
        let almost = Buffer { has_bytes: 24 * MIB + 2, ..shrinks(24 * MIB + 1) };
        assert_eq!(almost.next_bytes(), None);
        assert_eq!(Buffer { least_bytes: 24 * MIB, ..almost }.next_bytes(), Some(24 * MIB));
    }

    #[test]
    fn a_fixed_one_has_all_that_it_may() {
        for memory in [0, MAY_GROW] {
            let fixed = Buffer { flags: IS_FIXED | KEEPS_BOUND | memory, needs_bytes: 0, ..SEND };
            assert_eq!(fixed.next_bytes(), Some(24 * MIB));
            assert_eq!(Buffer { has_bytes: 24 * MIB, ..fixed }.next_bytes(), None);
            assert!(!fixed.grows());
        }
        // Neither does one that is not the path's to size.
        assert!(SEND.grows() && !Buffer { has_bytes: 0, most_bytes: 0, ..SEND }.grows());
    }

    #[test]
    fn what_it_wants_does_not_depend_on_what_there_is() {
        let wants = |flags| Buffer { needs_bytes: 1 << 30, flags, ..SEND }.wants_bytes();
        assert_eq!([wants(0), wants(MAY_GROW), wants(KEEPS_BOUND)], [4 * MIB; 3]);
        let large = Buffer { has_bytes: 32 * MIB, flags: KEEPS_BOUND, ..SEND };
        assert_eq!(large.wants_bytes(), 0);
    }

    #[test]
    fn needs_are_the_kernels_own() {
        // Ethernet's segments take 4 KiB and a head each; jumbo ones 16 KiB.
        assert_eq!(send_needs_bytes(10, 1_448), 2 * 10 * 4_352);
        assert_eq!(send_needs_bytes(10, 8_948), 2 * 10 * 16_640);
        assert_eq!(send_needs_bytes(u32::MAX, 65_535), 2 * 0xffff_ffff * (131_072 + 256));
        assert_eq!(receive_needs_bytes(1_000_000, 128), 16_000_000);
        assert_eq!(receive_needs_bytes(u32::MAX, 0), 8 * 0xffff_ffff * 256);
        assert_eq!([1, 2, 3, 4_096, 4_097].map(power_of_two), [1, 2, 4, 4_096, 8_192]);
    }

    proptest! {
        #[test]
        fn no_step_is_beyond_need_bound_or_double(
            has_bytes in 1_u32..1 << 31, needs_bytes in 0_u64..1 << 40,
            most_bytes in 1_u32..1 << 31, least_bytes in 0_u32..1 << 31, kernel_bytes: u32,
            flags in 0_u32..8,
        ) {
            let buffer =
                Buffer { has_bytes, needs_bytes, most_bytes, least_bytes, kernel_bytes, flags };
            let Some(next) = buffer.next_bytes() else { return Ok(()) };
            prop_assert!(next <= most_bytes && next != has_bytes);
            if next < has_bytes {
                prop_assert!(flags & KEEPS_BOUND != 0 && next == most_bytes);
            } else if flags & IS_FIXED == 0 {
                prop_assert!(flags & MAY_GROW != 0);
                prop_assert!(u64::from(next) <= needs_bytes);
                prop_assert!(u64::from(next) <= 2 * u64::from(has_bytes));
            }
        }

        /// Whatever is needed for good is reached in a few steps, and then it is quiet.
        #[test]
        fn it_comes_to_rest(
            has_bytes in 4_096_u32..1 << 31, needs_bytes in 0_u64..1 << 40,
            most_bytes in 4_096_u32..1 << 31, least_bytes in 0_u32..1 << 31,
            kernel_bytes in 0_u32..1 << 26, flags in 0_u32..8,
        ) {
            let mut buffer =
                Buffer { has_bytes, needs_bytes, most_bytes, least_bytes, kernel_bytes, flags };
            let mut steps = 0;
            while let Some(next) = buffer.next_bytes() {
                // It is set, and so none of the kernel's any more.
                let has_bytes = if next < buffer.has_bytes { next.max(least_bytes) } else { next };
                buffer = Buffer { has_bytes, kernel_bytes: 0, ..buffer };
                steps += 1;
                prop_assert!(steps <= 21);
            }
        }
    }
}
