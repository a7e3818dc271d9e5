//! Two network namespaces, `a` and `b`, are joined by a wire: a pair of virtual
//! Ethernet devices, at the speed of the machine.

use crate::{
    ends::{self, Ends, EndsError},
    netns::Netns,
    process::ProcessError,
    settings::{self, SettingsError},
};

/// The device has this name in both namespaces.
pub const DEVICE: &str = "wire0";
/// First addresses of `a` and `b`; the networks are 10.81.0.0/16 and fd81::/32.
pub const ADDRESSES_V4: [&str; 2] = ["10.81.0.1", "10.81.0.2"];
pub const ADDRESSES_V6: [&str; 2] = ["fd81::1", "fd81::2"];

/// An end of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    A,
    B,
}

/// Tells what went wrong in setting up a wire.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error(transparent)]
    Ends(#[from] EndsError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// The wire, up; gone when dropped.
#[derive(Debug)]
pub struct Wire {
    ends: Ends,
}

impl Wire {
    /// Joins two namespaces under a distribution's default settings.
    ///
    /// # Errors
    /// Without root, or where the host does not allow cubic.
    pub fn start() -> Result<Self, WireError> {
        let wire = Self::under_settings_of_host()?;
        wire.ends.both().into_iter().try_for_each(settings::apply_to)?;
        Ok(wire)
    }

    /// Joins two namespaces under the settings that they get of the host.
    ///
    /// # Errors
    /// Without root.
    pub fn under_settings_of_host() -> Result<Self, WireError> {
        let ends = Ends::create()?;
        ends::join(ends.both(), DEVICE)?;
        for (side, netns) in ends.both().into_iter().enumerate() {
            add(netns, ADDRESSES_V4[side])?;
            add(netns, ADDRESSES_V6[side])?;
        }
        Ok(Self { ends })
    }

    /// Returns the near end.
    #[must_use]
    pub const fn a(&self) -> &Netns {
        &self.ends.a
    }

    /// Returns the far end.
    #[must_use]
    pub const fn b(&self) -> &Netns {
        &self.ends.b
    }

    /// Sets where an end sends what is for the first IPv4 address of the other:
    /// to its device or, for none, to a hardware address that nobody has.
    ///
    /// # Errors
    /// When `ip` refuses it.
    pub fn set_neighbour(&self, side: Side, reachable: bool) -> Result<(), ProcessError> {
        let (netns, other, address) = match side {
            Side::A => (self.a(), self.b(), ADDRESSES_V4[1]),
            Side::B => (self.b(), self.a(), ADDRESSES_V4[0]),
        };
        let shown = other.ip(&["-oneline", "link", "show", DEVICE])?;
        let mut words = shown.split_whitespace().skip_while(|word| *word != "link/ether");
        let hardware = words.nth(1).filter(|_| reachable).unwrap_or("02:00:00:00:00:00");
        let way = ["neigh", "replace", address, "lladdr", hardware, "dev", DEVICE];
        netns.ip(&way).map(|_| ())
    }

    /// Gives the far end one more address of the two networks.
    ///
    /// # Errors
    /// When `ip` refuses it.
    pub fn add_to_b(&self, address: &str) -> Result<(), ProcessError> {
        add(self.b(), address)
    }

    /// Gives the near end one more address of the two networks.
    ///
    /// # Errors
    /// When `ip` refuses it.
    pub fn add_to_a(&self, address: &str) -> Result<(), ProcessError> {
        add(self.a(), address)
    }
}

fn add(netns: &Netns, address: &str) -> Result<(), ProcessError> {
    let prefix = if address.contains(':') { 32 } else { 16 };
    ends::add_address(netns, DEVICE, &format!("{address}/{prefix}"))
}
