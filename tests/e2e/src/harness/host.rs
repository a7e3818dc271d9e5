//! The host serves all tests that run beside each other: its settings are made once for
//! all of them, and so that no agent changes what another needs.

use anyhow::Result;
use wad_testbed::{
    old_kernel::BpfFileSystem,
    settings::{HostDefaults, RaisedCeilings},
};

/// The host is put back as it was when this is dropped.
pub struct Host {
    // Dropped in this order.
    _ceilings: RaisedCeilings,
    _defaults: HostDefaults,
    // An agent that mounted it would take it away from the others.
    _pins: BpfFileSystem,
}

impl Host {
    pub fn set_up() -> Result<Self> {
        let pins = BpfFileSystem::mount()?;
        let defaults = HostDefaults::set()?;
        let ceilings = RaisedCeilings::set()?;
        Ok(Self { _ceilings: ceilings, _defaults: defaults, _pins: pins })
    }
}
