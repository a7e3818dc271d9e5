//! Flows save what their paths carry (RFC 9959).

use aya::maps::{HashMap, Map};
use wad_common::saved::{Endpoint, Saved};

use super::{Result, error::named, open_maps::OpenMaps};

const NAME: &str = "SAVED";

/// Deletes all of it. A flow that has some in use at the moment goes on with that.
pub fn forget(maps: &OpenMaps) -> Result<()> {
    let error = named(NAME);
    let map = Map::LruHashMap(maps.own(NAME)?);
    let mut saved: HashMap<_, Endpoint, Saved> = map.try_into().map_err(&error)?;
    let known: Vec<Endpoint> = saved.keys().collect::<Result<_, _>>().map_err(error)?;
    for endpoint in &known {
        // What made room for others meanwhile is gone.
        let _ = saved.remove(endpoint);
    }
    Ok(())
}
