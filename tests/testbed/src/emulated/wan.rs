//! A WAN is two network namespaces, `a` and `b`, and the emulated path between them.
//! The near end may be the namespace of this process.
//! The near end is on that path itself or, where its own queue is looked at, one wire
//! away: a TUN device lets go of packets as soon as it has them, so that TCP never
//! finds its queue full.

use std::{io, sync::Arc, time::Duration};

use super::{
    direction::{Counters, Moments},
    emulator::Emulator,
    flights::Flights,
    path::Path,
    tun::{QUEUE_PACKETS, Tun, TunError},
};
use crate::{
    ends::{self, Ends, EndsError},
    netns::{Netns, NetnsError},
    process::{ProcessError, run},
    sysctl::{self, SysctlError},
};

/// The device in the namespaces on the path has this name.
pub const DEVICE: &str = "wan0";
/// Addresses of the path's ends: in namespaces of their own, the same every time.
pub const ADDRESSES_V4: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
pub const ADDRESSES_V6: [&str; 2] = ["fd77::1", "fd77::2"];
/// Addresses of the ends of a second path, which runs beside the first.
pub const SECOND_ADDRESSES_V4: [&str; 2] = ["10.78.0.1", "10.78.0.2"];
const SECOND_ADDRESSES_V6: [&str; 2] = ["fd78::1", "fd78::2"];
/// The wire before the path, where there is one, has a device, a network, and the
/// addresses of `a` and the router.
const WIRE: &str = "wire0";
const WIRE_NETWORK: &str = "10.77.1.0/30";
const WIRE_ADDRESSES: [&str; 2] = ["10.77.1.1", "10.77.1.2"];

/// The addresses of both ends, IPv4 and IPv6.
type Addresses = [[&'static str; 2]; 2];
const FIRST: Addresses = [ADDRESSES_V4, ADDRESSES_V6];
const SECOND: Addresses = [SECOND_ADDRESSES_V4, SECOND_ADDRESSES_V6];

/// Tells what went wrong in setting up a path.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    #[error(transparent)]
    Ends(#[from] EndsError),
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Tun(#[from] TunError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error("cannot start the emulator's threads")]
    Thread { source: io::Error },
    #[error("cannot read the counters of {DEVICE} in /proc/net/dev")]
    Device { source: io::Error },
}

/// The path, up and carrying packets; all of it is gone when dropped.
pub struct Wan {
    // Dropped in this order: the emulator lets go of the devices first.
    emulator: Emulator,
    ends: Ends,
    router: Option<Netns>,
}

impl Wan {
    /// # Errors
    /// Without root, or without TUN devices.
    pub fn start(path: &Path) -> Result<Self, WanError> {
        Self::joined(path, Ends::create()?, (None, FIRST))
    }

    /// Starts a second path, between namespaces of its own: only its addresses are others.
    ///
    /// # Errors
    /// Without root, or without TUN devices.
    pub fn start_second(path: &Path) -> Result<Self, WanError> {
        Self::joined(path, Ends::create()?, (None, SECOND))
    }

    /// Starts the path with the near end in the namespace of this process, as on a host
    /// without containers.
    ///
    /// # Errors
    /// Without root, or without TUN devices.
    pub fn start_from_here(path: &Path) -> Result<Self, WanError> {
        Self::joined(path, Ends::create_far()?, (None, FIRST))
    }

    /// Starts the path with the near end behind a router, to which its device has a
    /// queueing discipline of this kind, as `tc` takes it.
    ///
    /// # Errors
    /// Without root or TUN devices, or when `tc` refuses the discipline.
    pub fn start_behind_wire(path: &Path, discipline: &str) -> Result<Self, WanError> {
        let (ends, router) = (Ends::create()?, Netns::create("router")?);
        ends::join([&ends.a, &router], WIRE)?;
        for (netns, address) in [&ends.a, &router].into_iter().zip(WIRE_ADDRESSES) {
            ends::add_address(netns, WIRE, &format!("{address}/30"))?;
        }
        router.run(|| sysctl::set("net.ipv4.ip_forward", "1"))??;
        let mut arguments = vec!["-n", ends.a.name(), "qdisc", "replace", "dev", WIRE, "root"];
        arguments.extend(discipline.split_whitespace());
        run("tc", &arguments)?;
        let wan = Self::joined(path, ends, (Some(router), FIRST))?;
        wan.a().ip(&["route", "add", "default", "via", WIRE_ADDRESSES[1]])?;
        wan.b().ip(&["route", "add", WIRE_NETWORK, "via", ADDRESSES_V4[0]])?;
        Ok(wan)
    }

    fn joined(
        path: &Path,
        ends: Ends,
        (router, addresses): (Option<Netns>, Addresses),
    ) -> Result<Self, WanError> {
        let near = router.as_ref().unwrap_or(&ends.a);
        let [v4, v6] = addresses;
        let tuns = [end(near, [v4[0], v6[0]], path)?, end(&ends.b, [v4[1], v6[1]], path)?];
        let emulator =
            Emulator::start(tuns, path.laws()).map_err(|source| WanError::Thread { source })?;
        Ok(Self { emulator, ends, router })
    }

    /// Returns the near end, where senders run.
    #[must_use]
    pub const fn a(&self) -> &Netns {
        &self.ends.a
    }

    /// Returns the far end.
    #[must_use]
    pub const fn b(&self) -> &Netns {
        &self.ends.b
    }

    /// Returns the device that the near end sends through.
    #[must_use]
    pub const fn near_device(&self) -> &'static str {
        if self.router.is_some() { WIRE } else { DEVICE }
    }

    /// Makes the way there and back take so long from now on, as by another route.
    pub fn set_rtt(&self, rtt: Duration) {
        let one_way_ns = rtt.as_nanos() / 2;
        self.emulator.set_delay_ns(u64::try_from(one_way_ns).unwrap_or(u64::MAX));
    }

    /// Has the way there carry and lose what that of another path does, from now on.
    pub fn turn(&self, into: &Path) {
        let [forward, _] = into.laws();
        self.emulator.turn(&forward);
    }

    /// Returns what was done so far: from `a` to `b`, and back.
    ///
    /// # Errors
    /// When a namespace cannot be entered or its counters not be read.
    pub fn counters(&self) -> Result<[Counters; 2], WanError> {
        let [mut forward, mut reverse] = self.emulator.counters();
        let near = self.router.as_ref().unwrap_or(&self.ends.a);
        for (netns, counters) in [(near, &mut forward), (self.b(), &mut reverse)] {
            let dropped = netns.run(device_drops)?;
            counters.device_drops = dropped.map_err(|source| WanError::Device { source })?;
        }
        Ok([forward, reverse])
    }

    /// Begins to keep a record of what is on its way from `a` to `b`.
    pub fn record_flights(&self) {
        self.emulator.record_flights();
    }

    /// Returns the record of what is on its way so far.
    #[must_use]
    pub fn flights(&self) -> Flights {
        self.emulator.flights()
    }

    /// Returns when segments on the way to `b` were dropped or marked so far.
    #[must_use]
    pub fn moments(&self) -> Moments {
        self.emulator.moments()
    }
}

/// Gives a namespace its device and addresses.
fn end(netns: &Netns, [v4, v6]: [&str; 2], path: &Path) -> Result<Arc<Tun>, WanError> {
    let tun = Tun::create(netns, DEVICE)?;
    let (mtu, queue) = (path.mtu.to_string(), QUEUE_PACKETS.to_string());
    netns.ip(&["link", "set", DEVICE, "mtu", &mtu, "txqueuelen", &queue, "up"])?;
    ends::add_address(netns, DEVICE, &format!("{v4}/30"))?;
    if path.mtu >= 1280 {
        ends::add_address(netns, DEVICE, &format!("{v6}/126"))?;
    }
    Ok(Arc::new(tun))
}

/// Packets that the device of this thread's namespace refused to take: the
/// twelfth column of /proc/net/dev after the name.
fn device_drops() -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
    let dropped = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    dropped.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
