//! The host serves all tests that run beside each other: its settings are made once for
//! all of them, and so that no agent changes what another needs.

use anyhow::Result;
use wad_testbed::{
    old_kernel::BpfFileSystem,
    settings::{HostDefaults, RMEM_MAX, WMEM_MAX},
    sysctl::Changed,
};

/// The ceilings on buffers are this many bytes: no policy of these tests needs more. An
/// agent that stops lowers what it has raised, whoever else needs it.
const CEILING: &str = "33554432";

/// The host is put back as it was when this is dropped.
pub struct Host {
    // Dropped in this order.
    _ceilings: [Changed; 2],
    _defaults: HostDefaults,
    // An agent that mounted it would take it away from the others.
    _pins: BpfFileSystem,
}

impl Host {
    pub fn set_up() -> Result<Self> {
        let pins = BpfFileSystem::mount()?;
        let defaults = HostDefaults::set()?;
        let ceilings = [Changed::to(RMEM_MAX.0, CEILING)?, Changed::to(WMEM_MAX.0, CEILING)?];
        Ok(Self { _ceilings: ceilings, _defaults: defaults, _pins: pins })
    }
}
