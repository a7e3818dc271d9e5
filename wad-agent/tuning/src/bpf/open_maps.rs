//! The pinned maps, open: one descriptor for each, for all who use them, and whatever has become of
//! their pins.

use std::{
    collections::HashMap,
    os::fd::{AsFd as _, BorrowedFd},
    sync::Arc,
};

use aya::{
    Ebpf,
    maps::{Map, MapData},
};

use super::{Pins, Result, TuningError, error::named, pinned_maps::NAMES};

/// The pinned maps, by their names.
#[derive(Clone)]
pub struct OpenMaps(HashMap<&'static str, Arc<MapData>>);

impl OpenMaps {
    /// Opens those that an agent before this one has left.
    pub fn open(pins: &Pins) -> Result<Self> {
        let open = |name| {
            let map = MapData::from_pin(pins.map(name)).map_err(named(name))?;
            Ok((name, Arc::new(map)))
        };
        Ok(Self(NAMES.into_iter().map(open).collect::<Result<_>>()?))
    }

    /// Takes the pinned maps out of a BPF object and keeps them open. The object's programs refer to
    /// maps by the numbers of their descriptors: they can be loaded only while these are open.
    pub fn take_from(object: &mut Ebpf) -> Self {
        let map = |name| Some((name, Arc::new(into_data(object.take_map(name)?)?)));
        Self(NAMES.into_iter().filter_map(map).collect())
    }

    /// Returns one of them.
    pub fn get(&self, name: &str) -> Option<&Arc<MapData>> {
        self.0.get(name)
    }

    /// Returns these, by their names.
    pub fn these(&self, names: &[&'static str]) -> Result<HashMap<&'static str, BorrowedFd<'_>>> {
        names.iter().map(|name| Ok((*name, self.one(name)?.fd().as_fd()))).collect()
    }

    /// Returns one of them with a descriptor of its own, for what changes it.
    pub fn own(&self, name: &'static str) -> Result<MapData> {
        let fd = self.one(name)?.fd().as_fd().try_clone_to_owned().map_err(TuningError::Held)?;
        MapData::from_fd(fd).map_err(named(name))
    }

    fn one(&self, name: &'static str) -> Result<&MapData> {
        self.0.get(name).map(|map| &**map).ok_or(TuningError::NotPinned(name))
    }
}

fn into_data(map: Map) -> Option<MapData> {
    match map {
        Map::Array(map)
        | Map::ArrayOfMaps(map)
        | Map::HashMap(map)
        | Map::LruHashMap(map)
        | Map::RingBuf(map)
        | Map::SkStorage(map) => Some(map),
        _ => None,
    }
}
