//! The hall is where connections wait until they have shown who they are: so many in all, and
//! so many from one address. A further one gets the place of the one that has waited longest.
//! Those from where a peer was heard are looked at for themselves: strangers never take their
//! places.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::task::AbortHandle;

/// Connections of strangers at a time, and of those from known addresses.
const MOST: usize = 128;
/// Connections from one address.
const MOST_OF_ADDRESS: usize = 8;
/// A handshake takes most of a millisecond of a processor: so many a second, in the long run,
/// and so many at once.
const HANDSHAKES_PER_SECOND: f64 = 100.0;
const HANDSHAKES_AT_ONCE: f64 = 200.0;
/// Addresses from where peers were heard, at most: four of each peer that there may be.
const MOST_KNOWN: usize = 1_024;

/// A place that tokens drip into, up to a bound.
#[derive(Debug)]
pub struct Bucket {
    tokens: f64,
    most: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    pub const fn full(most: f64, per_second: f64, now: Instant) -> Self {
        Self { tokens: most, most, per_second, at: now }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.most);
        let is_there = self.tokens >= 1.0;
        if is_there {
            self.tokens -= 1.0;
        }
        is_there
    }
}

/// An address as it is counted: of IPv6 the network, in which a host may have any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Counted(IpAddr);

impl From<IpAddr> for Counted {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << 64);
                Self(Ipv6Addr::from_bits(network).into())
            }
            v4 => Self(v4),
        }
    }
}

/// Where one more goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Free,
    /// One had to leave for it.
    Of {
        left: IpAddr,
    },
    /// There is none, and it has to leave itself.
    None {
        left: IpAddr,
    },
}

struct Seat {
    address: Counted,
    of_known: bool,
    since: Instant,
    task: AbortHandle,
    /// It has shown that it is a peer, and keeps its place.
    is_in: Arc<AtomicBool>,
}

impl Seat {
    fn may_go(&self) -> bool {
        !self.is_in.load(Ordering::Relaxed)
    }
}

/// All that are there, and from where peers were heard.
pub struct Hall {
    seats: Vec<Seat>,
    known: HashMap<Counted, Instant>,
    /// The handshakes of strangers, and of those from known addresses.
    handshakes: [Bucket; 2],
}

impl Hall {
    pub fn new(now: Instant) -> Self {
        let bucket = || Bucket::full(HANDSHAKES_AT_ONCE, HANDSHAKES_PER_SECOND, now);
        Self { seats: Vec::new(), known: HashMap::new(), handshakes: [bucket(), bucket()] }
    }

    /// Finds a place for one more.
    pub fn place(&mut self, from: IpAddr, now: Instant) -> Place {
        let address = Counted::from(from);
        let of_known = self.known.contains_key(&address);
        if !self.handshakes[usize::from(of_known)].take(now) {
            return Place::None { left: from };
        }
        self.seats.retain(|seat| !seat.task.is_finished());
        let of_address = self.seats.iter().filter(|seat| seat.address == address).count();
        if of_address >= MOST_OF_ADDRESS {
            return self.make_room(from, |seat| seat.address == address);
        }
        let of_kind = self.seats.iter().filter(|seat| seat.of_known == of_known).count();
        if of_kind >= MOST {
            return self.make_room(from, |seat| seat.of_known == of_known);
        }
        Place::Free
    }

    /// Ends the one of these that has waited longest, if any may go.
    fn make_room(&mut self, from: IpAddr, is_meant: impl Fn(&Seat) -> bool) -> Place {
        let may_go = self.seats.iter().enumerate();
        let may_go = may_go.filter(|(_, seat)| is_meant(seat) && seat.may_go());
        let Some((place, _)) = may_go.min_by_key(|(_, seat)| seat.since) else {
            return Place::None { left: from };
        };
        let seat = self.seats.swap_remove(place);
        seat.task.abort();
        Place::Of { left: seat.address.0 }
    }

    /// Gives a connection its place.
    pub fn seat(
        &mut self,
        address: IpAddr,
        task: AbortHandle,
        is_in: Arc<AtomicBool>,
        since: Instant,
    ) {
        let address = Counted::from(address);
        let of_known = self.known.contains_key(&address);
        self.seats.push(Seat { address, of_known, since, task, is_in });
    }

    /// Notes that a peer was heard from an address.
    pub fn note(&mut self, address: IpAddr, now: Instant) {
        self.known.insert(address.into(), now);
        if self.known.len() > MOST_KNOWN
            && let Some(oldest) = self.known.iter().min_by_key(|(_, at)| **at).map(|it| *it.0)
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use tokio::task::JoinSet;

    use super::*;

    /// Connections that never end by themselves.
    struct Crowd {
        hall: Hall,
        tasks: JoinSet<()>,
        now: Instant,
    }

    impl Crowd {
        fn new() -> Self {
            let now = Instant::now();
            Self { hall: Hall::new(now), tasks: JoinSet::new(), now }
        }

        /// Another comes, a tenth of a second later: whether it has a place, and another's.
        fn comes(&mut self, address: &str, is_in: bool) -> Option<bool> {
            self.now += Duration::from_millis(100);
            let address = address.parse().unwrap();
            let place = self.hall.place(address, self.now);
            if matches!(place, Place::None { .. }) {
                return None;
            }
            let task = self.tasks.spawn(pending());
            self.hall.seat(address, task, Arc::new(AtomicBool::new(is_in)), self.now);
            Some(matches!(place, Place::Of { .. }))
        }

        fn count(&self) -> usize {
            self.hall.seats.len()
        }
    }

    #[tokio::test]
    async fn one_address_takes_no_place_of_another() {
        let mut crowd = Crowd::new();
        for number in 0..1_000 {
            assert_eq!(crowd.comes("192.0.2.1", false), Some(number >= MOST_OF_ADDRESS));
        }
        assert_eq!(crowd.comes("192.0.2.2", false), Some(false));
        assert_eq!(crowd.count(), MOST_OF_ADDRESS + 1);
        // All of a network of IPv6 are one.
        for number in 0..100 {
            crowd.comes(&format!("2001:db8::{number}"), false);
        }
        assert_eq!(crowd.count(), 2 * MOST_OF_ADDRESS + 1);
        // Peers that are in stay, and nobody else comes from there.
        for _ in 0..MOST_OF_ADDRESS {
            assert_eq!(crowd.comes("192.0.2.3", true), Some(false));
        }
        assert_eq!(crowd.comes("192.0.2.3", false), None);
    }

    #[tokio::test]
    async fn strangers_take_no_place_of_those_that_were_heard() {
        let mut crowd = Crowd::new();
        let known: IpAddr = "198.51.100.1".parse().unwrap();
        crowd.hall.note(known, crowd.now);
        assert_eq!(crowd.comes("198.51.100.1", false), Some(false));
        for number in 0..1_000 {
            let address = format!("10.0.{}.{}", number / 250, number % 250);
            assert_eq!(crowd.comes(&address, false), Some(number >= MOST));
        }
        assert_eq!(crowd.comes("198.51.100.1", false), Some(false));
        assert_eq!(crowd.count(), MOST + 2);
        for number in 0..2 * MOST_KNOWN as u32 {
            let address = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
            crowd.hall.note(address, crowd.now + Duration::from_millis(number.into()));
        }
        assert_eq!(crowd.hall.known.len(), MOST_KNOWN);
    }

    const fn has_place(place: Place) -> bool {
        !matches!(place, Place::None { .. })
    }

    #[tokio::test]
    async fn handshakes_are_bounded_for_strangers_and_known_ones_apart() {
        let mut hall = Hall::new(Instant::now());
        let now = Instant::now();
        let known: IpAddr = "198.51.100.1".parse().unwrap();
        hall.note(known, now);
        let taken = (0..10_000).filter(|number: &u32| {
            let address = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
            has_place(hall.place(address, now))
        });
        assert_eq!(taken.count() as f64, HANDSHAKES_AT_ONCE);
        assert_eq!(hall.place(known, now), Place::Free);
        let later = now + Duration::from_secs(1);
        let one = "10.0.0.1".parse().unwrap();
        let taken = (0..10_000).filter(|_| has_place(hall.place(one, later)));
        assert_eq!(taken.count() as f64, HANDSHAKES_PER_SECOND);
    }
}
