//! The ring buffer of flows' events.

use std::{io, path::Path};

use aya::maps::{Map, MapData, RingBuf};
use tokio::io::unix::AsyncFd;
use wad_common::event::Event;

use super::{Result, TuningError};
use crate::events;

/// Yields events as they come.
pub struct Events {
    ring: AsyncFd<RingBuf<MapData>>,
}

impl Events {
    /// Opens the pinned ring buffer. Needs a tokio runtime.
    pub fn open(path: &Path) -> Result<Self> {
        let error = |source| TuningError::Map { name: "EVENTS", source };
        let map = Map::RingBuf(MapData::from_pin(path).map_err(error)?);
        let ring = RingBuf::try_from(map).map_err(error)?;
        // SAFETY: the ring buffer owns its descriptor, which stays open and the
        // same for as long as it lives.
        let ring = unsafe { AsyncFd::register(ring) };
        let ring = ring.map_err(|error| TuningError::Poll(error.into()))?;
        Ok(Self { ring })
    }

    /// Waits for events and hands each to `take`.
    pub async fn wait(&mut self, mut take: impl FnMut(Event)) -> io::Result<()> {
        let mut ready = self.ring.readable_mut().await?;
        let ring = ready.get_inner_mut();
        while let Some(bytes) = ring.next() {
            if let Some(event) = events::parse(&bytes) {
                take(event);
            }
        }
        ready.clear_ready();
        Ok(())
    }
}
