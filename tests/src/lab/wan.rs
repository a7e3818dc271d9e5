//! Two network namespaces, `a` and `b`, and the emulated path between them.

use std::{io, sync::Arc};

use super::{
    emulator::{Counters, Emulator},
    scenario::Path,
    tun::{Tun, TunError},
};
use crate::{
    netns::{Netns, NetnsError},
    process::{ProcessError, run},
};

/// Name of the device in both namespaces.
pub const DEVICE: &str = "wan0";
/// Addresses of `a` and `b`: in namespaces of their own, the same every time.
pub const ADDRESSES_V4: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
pub const ADDRESSES_V6: [&str; 2] = ["fd77::1", "fd77::2"];

/// What went wrong in setting up a path.
#[derive(Debug, thiserror::Error)]
pub enum WanError {
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Tun(#[from] TunError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot start the emulator's threads")]
    Thread { source: io::Error },
    #[error("cannot read the counters of {DEVICE} in /proc/net/dev")]
    Device { source: io::Error },
}

/// The path, up and carrying packets; all of it is gone when dropped.
pub struct Wan {
    // Dropped in this order: the emulator lets go of the devices first.
    emulator: Emulator,
    a: Netns,
    b: Netns,
}

impl Wan {
    /// # Errors
    /// Without root, or without TUN devices.
    pub fn start(path: &Path) -> Result<Self, WanError> {
        let (a, b) = (Netns::create("a")?, Netns::create("b")?);
        let tuns = [end(&a, 0, path)?, end(&b, 1, path)?];
        let emulator =
            Emulator::start(tuns, path.laws()).map_err(|source| WanError::Thread { source })?;
        Ok(Self { emulator, a, b })
    }

    /// The near end, where senders run.
    #[must_use]
    pub const fn a(&self) -> &Netns {
        &self.a
    }

    /// The far end.
    #[must_use]
    pub const fn b(&self) -> &Netns {
        &self.b
    }

    /// What was done so far: from `a` to `b`, and back.
    ///
    /// # Errors
    /// When a namespace cannot be entered or its counters not be read.
    pub fn counters(&self) -> Result<[Counters; 2], WanError> {
        let [mut forward, mut reverse] = self.emulator.counters();
        for (netns, counters) in [(&self.a, &mut forward), (&self.b, &mut reverse)] {
            let dropped = netns.run(device_drops)?;
            counters.device_drops = dropped.map_err(|source| WanError::Device { source })?;
        }
        Ok([forward, reverse])
    }
}

/// Gives a namespace its device and addresses.
fn end(netns: &Netns, side: usize, path: &Path) -> Result<Arc<Tun>, WanError> {
    let tun = Tun::create(netns, DEVICE)?;
    netns.ip(&["link", "set", "lo", "up"])?;
    let mtu = path.mtu.to_string();
    // The queue is also that of the descriptor: long enough for any delay of the
    // emulator, so that nothing is lost before it.
    netns.ip(&["link", "set", DEVICE, "mtu", &mtu, "txqueuelen", "60000", "up"])?;
    netns.ip(&["addr", "add", &format!("{}/30", ADDRESSES_V4[side]), "dev", DEVICE])?;
    if path.mtu >= 1280 {
        let address = format!("{}/126", ADDRESSES_V6[side]);
        netns.ip(&["addr", "add", &address, "dev", DEVICE, "nodad"])?;
    }
    Ok(Arc::new(tun))
}

/// Gives the device the queueing discipline that is a distribution's default,
/// if this kernel has it.
pub fn set_fq_codel(netns: &Netns) {
    // Whether it worked is seen, and said, where the discipline is read.
    let _ = run("tc", &["-n", netns.name(), "qdisc", "replace", "dev", DEVICE, "root", "fq_codel"]);
}

/// The device's queueing discipline.
///
/// # Errors
/// When `tc` cannot tell.
pub fn qdisc(netns: &Netns) -> Result<String, ProcessError> {
    let shown = run("tc", &["-n", netns.name(), "qdisc", "show", "dev", DEVICE, "root"])?;
    let kind = shown.split_whitespace().nth(1).unwrap_or("none");
    Ok(match kind {
        "fq_codel" => kind.to_owned(),
        _ => format!("{kind} (this kernel has no fq_codel)"),
    })
}

/// Packets that the device of this thread's namespace refused to take: the
/// twelfth column of /proc/net/dev after the name.
fn device_drops() -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
    let dropped = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    dropped.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
