//! Who sends: a law by its name, or a path of a configuration with its whole policy.

use std::path::Path as FilePath;

use anyhow::{Result, anyhow, bail};
use wad_common::{control::Control, policy::NAME_BYTES};
use wad_policy::{
    capacity::Capacity,
    config::{Config, Congestion, Host, PathPolicy, fields},
    heard,
    law::Law,
    tuning_plan::{self, Bounds, KernelBuffers},
};
use wad_simulation::{Algorithm, MOST_WINDOW_BYTES, Path, Sender};

use crate::arguments::DEFAULT_CONFIG;

/// The algorithms of the kernel that are simulated, as it has them.
const KERNELS: [(&str, Algorithm); 4] = [
    ("reno", Algorithm::Reno),
    ("cubic", Algorithm::KernelCubic),
    ("highspeed", Algorithm::KernelHighSpeed),
    ("scalable", Algorithm::KernelScalable),
];

/// The window that a flow gets of the kernel's default buffers, at either end: the rest is
/// what the kernel spends on structures.
const DEFAULT_WINDOW_BYTES: u64 = 3 << 20;

/// A sender, and what it is called.
pub struct Named {
    pub name: String,
    pub sender: Sender,
}

/// Returns the names that are simulated.
pub fn law_names() -> impl Iterator<Item = &'static str> {
    KERNELS.into_iter().map(|(name, _)| name).chain(Law::ALL.iter().map(|law| law.name()))
}

/// Returns a sender under this law and nothing else; buffers never bound it. Our laws have the
/// parameters with which `wad plan` compares them.
pub fn of_law(name: &str, path: &Path) -> Result<Named> {
    let sender = match Law::ALL.iter().find(|law| law.name() == name) {
        None => Sender::new(kernels(name)?, Control::STANDARD),
        Some(Law::Dedicated) => Sender { most_window_bytes: MOST_WINDOW_BYTES, ..dedicated(path)? },
        Some(law) => {
            let segments = path.bdp_bytes() / f64::from(path.mtu_bytes);
            let parameters = law.entry().plan.map(|plan| plan(segments as u32));
            Sender::new(ours(*law), parameters.unwrap_or(Control::STANDARD))
        }
    };
    Ok(Named { name: name.to_owned(), sender })
}

/// Reads what a file would say of a path of one's own.
fn dedicated(path: &Path) -> Result<Sender> {
    let (rate, rtt_us) = (path.bits_per_second, path.rtt_ns as f64 / 1e3);
    let text = format!(
        "[[path]]\nname = \"simulated\"\nremote = \"192.0.2.0/24\"\ndedicated = \"{rate:.0}bit\"\n\
         rtt = \"{rtt_us:.0}us\"\nallow = \"aggressive\"\n"
    );
    let config = Config::parse("wad_dedicated", &text, &Host::default())?;
    let [policy] = &config.paths[..] else { bail!("no path") };
    sender(policy)
}

fn kernels(name: &str) -> Result<Algorithm> {
    let known = KERNELS.iter().find(|(known, _)| *known == name);
    known.map(|(_, algorithm)| *algorithm).ok_or_else(|| {
        let names: Vec<_> = law_names().collect();
        anyhow!("{name} is not simulated: these are: {}", names.join(", "))
    })
}

const fn ours(law: Law) -> Algorithm {
    match law {
        Law::Cubic => Algorithm::Cubic,
        Law::Aimd => Algorithm::Aimd,
        Law::HighSpeed => Algorithm::HighSpeed,
        Law::Scalable => Algorithm::Scalable,
        Law::Binomial => Algorithm::Binomial,
        Law::Leaky => Algorithm::Leaky,
        Law::Delay => Algorithm::Delay,
        Law::Dedicated => Algorithm::Dedicated,
    }
}

/// A path of a configuration, and what bounds its buffers.
pub struct OfPath {
    policy: PathPolicy,
    bounds: Bounds,
}

impl OfPath {
    /// Reads it as an agent would that begins now, which hears of no peer.
    pub fn read(file: Option<&FilePath>, name: &str) -> Result<Self> {
        let file = file.unwrap_or_else(|| FilePath::new(DEFAULT_CONFIG));
        let mut host = Host::read()?;
        host.congestion_controls.extend(KERNELS.map(|(name, _)| name.to_owned()));
        let mut config = Config::load(file, &host)?;
        // The memory and the kernel's own buffers are those of whatever host it is to run on.
        let max_buffer_bytes = config.limits.max_buffer_bytes;
        let bounds = Bounds::new(max_buffer_bytes, u64::MAX, KernelBuffers::default());
        heard::follow(&[], &mut config.paths, bounds);
        let policy = config.paths.into_iter().find(|path| path.name == name);
        policy
            .map(|policy| Self { policy, bounds })
            .ok_or_else(|| anyhow!("no path of {} is called {name:?}", file.display()))
    }

    /// Returns what the file says that it carries.
    pub const fn capacity(&self) -> Capacity {
        self.policy.origin.capacity
    }

    /// The sender: on a measured path that of one that is measured as this path is.
    pub fn sender(self, path: &Path) -> Result<Named> {
        let capacity = Capacity {
            bits_per_second: Some(path.bits_per_second),
            rtt_seconds: Some(path.rtt_ns as f64 / 1e9),
            is_least: false,
        };
        let policy = tuning_plan::policy(&self.policy, capacity, self.bounds);
        let law = policy.congestion.as_ref().map_or("cubic", Congestion::name);
        Ok(Named { name: format!("{} ({law})", policy.name), sender: sender(&policy)? })
    }
}

/// Returns the sender of a path. A host's default is taken for cubic, as it is nearly everywhere,
/// and the other end has the buffers that this path's policy has.
fn sender(path: &PathPolicy) -> Result<Sender> {
    let algorithm = match &path.congestion {
        Some(Congestion::Ours(law)) => ours(*law),
        Some(Congestion::Kernel(name)) => kernels(name)?,
        None => Algorithm::KernelCubic,
    };
    let policy = fields::policy(path, [0; NAME_BYTES]);
    let bytes =
        |own: Option<u32>| own.or(path.autotune_bytes).map_or(DEFAULT_WINDOW_BYTES, u64::from);
    let most_window_bytes = bytes(path.sndbuf_bytes).min(bytes(path.rcvbuf_bytes));
    Ok(Sender { algorithm, policy, most_window_bytes })
}
