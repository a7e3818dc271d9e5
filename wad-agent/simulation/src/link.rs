//! The bottleneck: a first-in first-out queue of bounded size before a line of fixed rate. Times
//! are in picoseconds, so that a packet's share of a nanosecond does not add up; they last for
//! 213 days.

/// Packets of one size that come at regular times.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    pub first_ps: u64,
    pub spacing_ps: u64,
    pub packets: u32,
}

/// The queue took so many, then dropped some, then took the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub first: u32,
    /// The last bit of the last of them leaves then.
    pub first_leave_ps: u64,
    pub dropped: u32,
    pub rest: u32,
    pub rest_leave_ps: u64,
}

#[derive(Clone, Debug)]
pub struct Link {
    packet_ps: u64,
    /// The time that a full queue takes, the packet in transmission included.
    limit_ps: u64,
    free_ps: u64,
    most_ps: u64,
}

impl Link {
    /// Whatever the queue, an idle line takes a packet.
    pub fn new(packet_ps: u64, limit_ps: u64) -> Self {
        Self { packet_ps, limit_ps: limit_ps.max(packet_ps), free_ps: 0, most_ps: 0 }
    }

    /// Returns what waits, or is in transmission, as the time that it takes.
    pub const fn backlog_ps(&self, now_ps: u64) -> u64 {
        self.free_ps.saturating_sub(now_ps)
    }

    /// The most that ever waited. (A train that is spread over its time is taken at once, and may
    /// seem to be too much for one of another flow that comes meanwhile.)
    pub fn most_backlog_ps(&self) -> u64 {
        self.most_ps.min(self.limit_ps)
    }

    /// Takes what comes, in a few steps whatever its number.
    ///
    /// Where packets come faster than the line, one is dropped for each that the line has not
    /// made room for: one more or less, in queues of two packets or more. Those that it still takes come after the dropped ones here; in truth the
    /// two alternate, for as long as the train lasts.
    pub fn take(&mut self, coming: Arrivals) -> Taken {
        if coming.spacing_ps >= self.packet_ps {
            self.take_slow(coming)
        } else {
            self.take_fast(coming)
        }
    }

    fn take_slow(&mut self, Arrivals { first_ps, spacing_ps, packets }: Arrivals) -> Taken {
        let backlog_ps = self.backlog_ps(first_ps);
        let over_ps = match backlog_ps {
            0 => 0,
            _ => (backlog_ps + self.packet_ps).saturating_sub(self.limit_ps).min(backlog_ps),
        };
        let dropped = over_ps.div_ceil(spacing_ps).min(packets.into()) as u32;
        let rest = packets - dropped;
        if rest > 0 {
            let at = |number: u32| first_ps + u64::from(number) * spacing_ps;
            let busy_ps = self.free_ps.max(at(dropped)) + self.packet_ps;
            self.most_ps = self.most_ps.max(busy_ps - at(dropped));
            let queued_ps = self.free_ps.max(first_ps) + u64::from(rest) * self.packet_ps;
            self.free_ps = queued_ps.max(at(packets - 1) + self.packet_ps);
        }
        Taken { dropped, rest, rest_leave_ps: self.free_ps, ..Taken::default() }
    }

    fn take_fast(&mut self, Arrivals { first_ps, spacing_ps, packets }: Arrivals) -> Taken {
        let backlog_ps = self.backlog_ps(first_ps);
        let grows_ps = self.packet_ps - spacing_ps;
        let first = match self.limit_ps.checked_sub(backlog_ps + self.packet_ps) {
            Some(room_ps) => (room_ps / grows_ps + 1).min(packets.into()) as u32,
            None => 0,
        };
        let spaced_ps = |packets: u32| u64::from(packets) * spacing_ps;
        self.free_ps = self.free_ps.max(first_ps) + u64::from(first) * self.packet_ps;
        let first_leave_ps = self.free_ps;
        if first > 0 {
            let last_ps = first_ps + spaced_ps(first - 1);
            self.most_ps = self.most_ps.max(self.backlog_ps(last_ps));
        }
        let left = packets - first;
        if left == 0 {
            return Taken { first, first_leave_ps, ..Taken::default() };
        }
        // The line makes room for so many more until the last one comes.
        let backlog_ps = self.backlog_ps(first_ps + spaced_ps(first));
        let room_ps = self.limit_ps.saturating_sub(backlog_ps) + spaced_ps(left - 1);
        let rest = (room_ps / self.packet_ps).min(left.into()) as u32;
        self.free_ps += u64::from(rest) * self.packet_ps;
        if rest > 0 {
            let last_ps = first_ps + spaced_ps(packets - 1);
            self.most_ps = self.most_ps.max(self.backlog_ps(last_ps));
        }
        let dropped = left - rest;
        Taken { first, first_leave_ps, dropped, rest, rest_leave_ps: self.free_ps }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKET_PS: u64 = 1000;

    /// Takes the same one by one, as the lab's emulator does, and returns how many it took,
    /// when the line is free, and the most that waited.
    fn one_by_one(mut free_ps: u64, limit_ps: u64, coming: Arrivals) -> (u32, u64, u64) {
        let (mut taken, mut most_ps) = (0, 0);
        for number in 0..u64::from(coming.packets) {
            let now_ps = coming.first_ps + number * coming.spacing_ps;
            let backlog_ps = free_ps.saturating_sub(now_ps);
            if backlog_ps > 0 && backlog_ps + PACKET_PS > limit_ps {
                continue;
            }
            free_ps = free_ps.max(now_ps) + PACKET_PS;
            most_ps = most_ps.max(free_ps - now_ps);
            taken += 1;
        }
        (taken, free_ps, most_ps)
    }

    proptest! {
        #[test]
        fn a_train_is_taken_as_its_packets_are(
            free_ps in 0_u64..60_000, limit in 2_u64..50, spacing_ps in 0_u64..3000,
            packets in 1_u32..100,
        ) {
            let limit_ps = limit * PACKET_PS;
            let first_ps = 20_000;
            // No queue is ever longer than its bound.
            let free_ps = free_ps.min(first_ps + limit_ps);
            let coming = Arrivals { first_ps, spacing_ps, packets };
            let (taken, then_free_ps, most_ps) = one_by_one(free_ps, limit_ps, coming);
            let mut link = Link { free_ps, ..Link::new(PACKET_PS, limit_ps) };
            let train = link.take(coming);
            prop_assert_eq!(train.first + train.dropped + train.rest, packets);
            // Of those that alternate, one more or less.
            let difference = (train.first + train.rest).abs_diff(taken);
            prop_assert!(difference <= 1, "{:?}, not {}", train, taken);
            prop_assert!(link.free_ps.abs_diff(then_free_ps) <= PACKET_PS);
            prop_assert!(link.most_ps <= limit_ps.max(PACKET_PS));
            prop_assert!(link.most_ps.abs_diff(most_ps) <= PACKET_PS);
        }
    }

    #[test]
    fn a_burst_fills_the_queue_and_the_rest_of_it_is_lost() {
        let mut link = Link::new(PACKET_PS, 10 * PACKET_PS);
        let burst = |packets| Arrivals { first_ps: 5_000, spacing_ps: 0, packets };
        let taken = link.take(burst(25));
        assert_eq!((taken.first, taken.dropped, taken.rest), (10, 15, 0));
        assert_eq!((taken.first_leave_ps, link.most_backlog_ps()), (15_000, 10_000));
        assert_eq!(link.take(burst(1)).dropped, 1);
    }
}
