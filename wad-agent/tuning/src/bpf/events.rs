//! The ring buffer of flows' events.

use std::{io, time::Duration};

use aya::maps::{Map, MapData, RingBuf};
use tokio::{
    io::unix::AsyncFd,
    task::yield_now,
    time::{Interval, MissedTickBehavior, interval},
};
use wad_common::event::Event;

use super::{Result, TuningError, error::named, event_bytes};

/// The kernel side wakes nobody unless much is waiting.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Events taken before other tasks get their turn.
const EVENTS_PER_TURN: usize = 512;

/// Yields events as they come.
pub struct Events {
    ring: AsyncFd<RingBuf<MapData>>,
    look: Interval,
    /// The last turn ended with some left.
    has_more: bool,
}

impl Events {
    /// Reads the ring buffer. Needs a tokio runtime.
    pub fn open(map: MapData) -> Result<Self> {
        let ring = RingBuf::try_from(Map::RingBuf(map)).map_err(named("EVENTS"))?;
        // SAFETY: the ring buffer owns its descriptor, which stays open and the
        // same for as long as it lives.
        let ring = unsafe { AsyncFd::register(ring) };
        let ring = ring.map_err(|error| TuningError::Poll(error.into()))?;
        let mut look = interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { ring, look, has_more: false })
    }

    /// Waits for events and hands each to `take`; returns after each turn.
    pub async fn wait(&mut self, mut take: impl FnMut(Event)) -> io::Result<()> {
        if self.has_more {
            yield_now().await;
        } else {
            tokio::select! {
                ready = self.ring.readable_mut() => ready?.clear_ready(),
                _ = self.look.tick() => {}
            }
        }
        self.has_more = self.drain(EVENTS_PER_TURN, &mut take) == EVENTS_PER_TURN;
        Ok(())
    }

    /// Hands at most so many of the events that are there to `take`; how many
    /// there were.
    pub fn drain(&mut self, most: usize, take: &mut impl FnMut(Event)) -> usize {
        let ring = self.ring.get_mut();
        let mut count = 0;
        while count < most
            && let Some(bytes) = ring.next()
        {
            count += 1;
            let event = event_bytes::parse(&bytes);
            // It leaves the ring before it is taken: an agent that is killed in between
            // takes it along, where the next one would tell of it a second time.
            drop(bytes);
            if let Some(event) = event {
                take(event);
            }
        }
        count
    }
}
