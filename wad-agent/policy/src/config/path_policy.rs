//! The policy of a path, valid and complete: what the file says and what follows from it.

use std::fmt;

use ipnet::IpNet;
use wad_common::{control::Control, ports::PortRange};

use super::{
    allow::Allow, by_peer::ByPeer, cgroup::CgroupSelector, cut::CutBuffers,
    experiment_settings::ExperimentSettings, interface::InterfacePattern, mark::Mark,
    resume_from::Resume, thresholds::Windows,
};
use crate::{capacity::Capacity, law::Law, shares::Shares};

/// A policy says which flows are meant, and what they get. None leaves a setting to the
/// kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathPolicy {
    /// 1 to 63 bytes, printable, unique.
    pub name: String,
    /// Networks, none twice, without IPv4-mapped ones; none where the path has but sets, and
    /// these are not known.
    pub remote: Vec<IpNet>,
    /// Local networks, as `remote`; empty for any.
    pub local: Vec<IpNet>,
    /// Ports of the other end, none twice; empty for any.
    pub remote_ports: Vec<PortRange>,
    /// Ports of this host, as `remote_ports`.
    pub local_ports: Vec<PortRange>,
    /// Number of the user whose sockets are meant; None for any.
    pub user: Option<u32>,
    /// The cgroups whose sockets are meant; None for any.
    pub cgroup: Option<CgroupSelector>,
    /// The marks of the sockets that are meant; None for any.
    pub mark: Option<Mark>,
    /// The interfaces that their packets leave by; None for any.
    pub interface: Option<InterfacePattern>,
    /// Bytes that the path carries in a round trip time, where the file says so.
    pub bdp_bytes: Option<u64>,
    /// Argument of SO_SNDBUF, which the kernel doubles.
    pub sndbuf_bytes: Option<u32>,
    /// Argument of SO_RCVBUF, which the kernel doubles.
    pub rcvbuf_bytes: Option<u32>,
    /// Both are for all flows of the path together.
    pub divide: bool,
    /// The size, as an argument of SO_SNDBUF and SO_RCVBUF, that the kernel's
    /// autotuning is to have room for, where it sizes the buffers.
    pub autotune_bytes: Option<u32>,
    /// Argument of TCP_NOTSENT_LOWAT.
    pub notsent_lowat_bytes: Option<u32>,
    pub congestion: Option<Congestion>,
    /// The law's parameters, in force where `congestion` is [`Congestion::Ours`].
    pub control: Control,
    pub initial_window_segments: Option<u32>,
    pub initial_receive_window_segments: Option<u32>,
    pub max_pacing_bytes_per_second: Option<u32>,
    /// A new flow knows this of the path's capacity.
    pub resume: Resume,
    /// Acknowledgements are delayed as little as the kernel allows.
    pub no_delayed_acks: bool,
    /// Packets that may arrive before one that was sent ahead of them, before that
    /// counts as lost.
    pub reorder_segments: Option<u32>,
    /// The application's own buffers, congestion control, rate and class do not count.
    pub override_setsockopt: bool,
    /// 0 to 63.
    pub dscp: Option<u8>,
    pub max_flows: Option<u32>,
    /// The share of new flows that get all this, in parts of [`wad_common::share::ALL`]; None for
    /// all.
    pub share: Option<u32>,
    /// Who allows it more than a fair share; None where it takes none.
    pub allow: Option<Allow>,
    /// Paths of others on the same way, which tuning may do harm.
    pub neighbours: Vec<String>,
    /// The experiment on it, if there is to be one.
    pub experiment: Option<Box<ExperimentSettings>>,
    /// Nothing of the above is given to its flows: they are only counted.
    pub observe: bool,
    pub origin: Origin,
    /// The measurements; None where the values are those of the file.
    pub measured: Option<MeasuredPath>,
}

impl PathPolicy {
    /// The law of ours that its flows are under, if they are.
    pub const fn law(&self) -> Option<Law> {
        match self.congestion {
            Some(Congestion::Ours(law)) => Some(law),
            _ => None,
        }
    }

    /// Whether it is for some sockets only, whatever their addresses and ports.
    pub const fn is_by_socket(&self) -> bool {
        let Self { user, cgroup, mark, interface, .. } = self;
        user.is_some() || cgroup.is_some() || mark.is_some() || interface.is_some()
    }

    /// Whether connections with addresses of its prefixes may be none of its own.
    pub const fn is_conditional(&self) -> bool {
        let Self { local, remote_ports, local_ports, .. } = self;
        let is_open = local.is_empty() && remote_ports.is_empty() && local_ports.is_empty();
        !is_open || self.is_by_socket()
    }

    /// Returns what its flows take beside CUBIC's. None under the kernel's
    /// algorithms that are no law's twins, and where losses are no measure.
    pub fn shares(&self) -> Option<Shares> {
        // What it may become.
        let law = match self.measured {
            Some(MeasuredPath { traits: AutoTraits { loss: true, .. }, .. }) => Law::Leaky,
            _ => self.congestion.as_ref()?.answering_law()?,
        };
        Shares::of(law, &self.control, self.origin.capacity)
    }
}

/// Says where a path's settings come from, and what of them the kernel side has no part
/// in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    pub capacity: Capacity,
    pub buffers: AutoBuffers,
    pub cut: CutBuffers,
    pub traits: AutoTraits,
    /// Standard flows as which one is to behave; 0 for one.
    pub streams: u32,
    /// [`PathPolicy::reorder_segments`]; 0 for the kernel's own.
    pub reorder_segments: u32,
    /// Whether connections negotiate ECN, by a feature of the path's routes (RTAX_FEATURE_ECN).
    pub ecn: bool,
    /// The algorithms that the path would rather have, and that can't be had.
    pub passed_over: Vec<PassedOver>,
    /// The names of the sets whose prefixes are the path's, beside its own; none twice.
    pub remote_sets: Vec<String>,
    /// The names of hosts whose addresses are the path's, likewise.
    pub remote_names: Vec<String>,
    /// The part of it that it has by the word of a peer; None where that is nothing.
    pub by_peer: Option<Box<ByPeer>>,
}

impl Origin {
    /// Says why the algorithm is not the first of its list, if it is not.
    pub fn passed_over_words(&self) -> Option<String> {
        let names: Vec<_> = self.passed_over.iter().map(PassedOver::to_string).collect();
        let chosen = "congestion is the first of its list that can be had";
        (!names.is_empty()).then(|| format!("{chosen}: {}", names.join(", ")))
    }

    /// Returns the names of the lists whose prefixes are the path's: of sets and of hosts.
    pub fn lists(&self) -> impl Iterator<Item = &String> {
        self.remote_sets.iter().chain(&self.remote_names)
    }

    /// Says which sets its prefixes are of, if they are.
    pub fn remote_sets_words(&self) -> Option<String> {
        words("remote set", &self.remote_sets)
    }

    /// Says which names its addresses are of, if they are.
    pub fn remote_names_words(&self) -> Option<String> {
        words("remote name", &self.remote_names)
    }
}

fn words(what: &str, names: &[String]) -> Option<String> {
    let s = if names.len() == 1 { "" } else { "s" };
    (!names.is_empty()).then(|| format!("{what}{s} {}", names.join(", ")))
}

/// An algorithm of the kernel's that can't be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    pub name: String,
    /// The reason for which the kernel did not load it; None where it does not have it.
    pub refused: Option<String>,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, refused } = self;
        match refused {
            Some(why) => write!(f, "the kernel did not load tcp_{name} ({why})"),
            None => write!(f, "the kernel has no {name}"),
        }
    }
}

/// Holds what follows from the measurements of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredPath {
    /// The capacity that the file says that the path carries: in force until it is
    /// measured, and when that is too old.
    pub fallback: Capacity,
    pub buffers: AutoBuffers,
    pub windows: Windows,
    /// The pair of RFC 3649.
    pub aimd_is_auto: bool,
    pub pacing_is_auto: bool,
    pub traits: AutoTraits,
    /// Standard flows as which one is to behave; buffers are for all of them.
    pub streams: u32,
    /// A measurement counts from so small a part of the file's own value to so many
    /// times that.
    pub band: u32,
}

/// Says which of the path's buffers follow from what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoBuffers {
    pub sndbuf: bool,
    pub rcvbuf: bool,
    /// The buffers that the kernel sizes.
    pub autotune: bool,
}

/// Says what follows from what the path does to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoTraits {
    /// How far they may be out of order.
    pub reorder: bool,
    /// The meaning of a loss.
    pub loss: bool,
}

impl AutoTraits {
    /// Whether anything does.
    pub const fn any(self) -> bool {
        self.reorder || self.loss
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Congestion {
    Ours(Law),
    /// An algorithm that the kernel has, by its name.
    Kernel(String),
}

impl Congestion {
    /// The law of ours by which it answers to losses: itself, or the kernel's own
    /// of the same law.
    pub fn answering_law(&self) -> Option<Law> {
        match self {
            Self::Ours(law) => Some(*law),
            Self::Kernel(name) => Law::as_kernels(name),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Ours(law) => law.name(),
            Self::Kernel(name) => name,
        }
    }
}
