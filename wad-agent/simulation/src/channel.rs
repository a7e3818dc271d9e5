//! The way of a train: what the path loses by itself, then the bottleneck, then the delay.

use std::collections::VecDeque;

use crate::{
    link::{Arrivals, Link},
    path::Path,
    random::Random,
};

pub const PS_PER_NS: u64 = 1000;

/// The part of a train that has one fate.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// The last bit of the last one leaves the bottleneck then.
    Passes {
        segments: u32,
        leaves_ps: u64,
    },
    Lost {
        segments: u32,
    },
}

#[derive(Debug)]
pub struct Channel {
    pub link: Link,
    losses: Losses,
    random: Random,
    jitter_ns: u64,
    packet_ps: u64,
    /// Segments of a train that is looked at together.
    train_segments: u32,
}

impl Channel {
    /// `lose` are the packets that are lost whatever happens, counted from 1.
    pub fn new(path: &Path, lose: &[u64]) -> Self {
        let packet_ps = path.packet_ps();
        let queue_ps = path.queue_bytes as f64 / f64::from(path.mtu_bytes) * packet_ps as f64;
        let train_segments = path.moderation_ns * PS_PER_NS / packet_ps;
        let mut random = Random::new(path.seed);
        let mut planned = lose.to_vec();
        planned.sort_unstable();
        planned.dedup();
        Self {
            link: Link::new(packet_ps, queue_ps as u64),
            losses: Losses {
                probability: path.loss,
                passing: random.failures(path.loss),
                planned: planned.into(),
                come: 0,
            },
            random,
            jitter_ns: path.jitter_ns,
            packet_ps,
            train_segments: u32::try_from(train_segments).unwrap_or(u32::MAX).max(1),
        }
    }

    pub const fn train_segments(&self) -> u32 {
        self.train_segments
    }

    pub const fn packet_ps(&self) -> u64 {
        self.packet_ps
    }

    /// How much later an ACK is than it could be.
    pub fn jitter_ns(&mut self) -> u64 {
        if self.jitter_ns == 0 { 0 } else { self.random.below(self.jitter_ns) }
    }

    /// Loses the next packet.
    pub fn lose_next(&mut self) {
        let next = self.losses.come + 1;
        if self.losses.planned.front() != Some(&next) {
            self.losses.planned.push_front(next);
        }
    }

    /// Returns what becomes of packets, piece by piece in their order.
    pub fn carry(&mut self, mut coming: Arrivals, mut tell: impl FnMut(Piece)) {
        while coming.packets > 0 {
            let passing = self.losses.passing(coming.packets);
            if passing == 0 {
                self.losses.lose(&mut self.random);
                tell(Piece::Lost { segments: 1 });
            } else {
                let taken = self.link.take(Arrivals { packets: passing, ..coming });
                if taken.first > 0 {
                    tell(Piece::Passes { segments: taken.first, leaves_ps: taken.first_leave_ps });
                }
                if taken.dropped > 0 {
                    tell(Piece::Lost { segments: taken.dropped });
                }
                if taken.rest > 0 {
                    tell(Piece::Passes { segments: taken.rest, leaves_ps: taken.rest_leave_ps });
                }
            }
            let come = passing.max(1);
            coming.packets -= come;
            coming.first_ps += u64::from(come) * coming.spacing_ps;
        }
    }
}

/// The path loses these, whatever its queue does.
#[derive(Debug)]
struct Losses {
    probability: f64,
    /// So many pass until the next is lost at random.
    passing: u64,
    /// Packets to be lost, by number.
    planned: VecDeque<u64>,
    /// So many have come.
    come: u64,
}

impl Losses {
    /// Lets up to so many pass, and returns how many do before the next loss.
    fn passing(&mut self, most: u32) -> u32 {
        let to_planned = self.planned.front().map_or(u64::MAX, |number| number - self.come - 1);
        let passing = self.passing.min(to_planned).min(most.into());
        self.come += passing;
        if self.passing < u64::MAX {
            self.passing -= passing;
        }
        passing as u32
    }

    fn lose(&mut self, random: &mut Random) {
        self.come += 1;
        let is_planned = self.planned.pop_front_if(|number| *number == self.come).is_some();
        if !is_planned {
            self.passing = random.failures(self.probability);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packets_that_are_named_are_lost() {
        let path = Path::new(1e9, 0.01, 1 << 30);
        let mut channel = Channel::new(&path, &[7, 3, 3]);
        let mut lost = Vec::new();
        let mut come = 0;
        for packets in [1, 4, 5] {
            let coming = Arrivals { first_ps: 0, spacing_ps: 0, packets };
            channel.carry(coming, |piece| match piece {
                Piece::Passes { segments, .. } => come += segments,
                Piece::Lost { segments } => {
                    come += segments;
                    lost.push(come);
                }
            });
        }
        assert_eq!((come, &lost[..]), (10, &[3, 7][..]));
    }

    #[test]
    fn so_many_are_lost_at_random() {
        let path = Path { loss: 0.01, ..Path::new(1e9, 0.01, 1 << 40) };
        let mut channel = Channel::new(&path, &[]);
        let mut lost = 0;
        for _ in 0..1000 {
            let coming = Arrivals { first_ps: 0, spacing_ps: 0, packets: 1000 };
            channel.carry(coming, |piece| {
                if let Piece::Lost { segments } = piece {
                    lost += segments;
                }
            });
        }
        assert!((9_500..10_500).contains(&lost), "{lost}");
    }
}
