//! wad's part in the kernel: maps, the tuner on its cgroup, and the congestion
//! control, all pinned so that they outlive the agent.
//!
//! The owner of it all is [`Tuning`]: made fresh, or taken over from an agent
//! that died; given a policy set; and removed as a whole.

mod cgroup;
mod error;
mod events;
mod maps;
mod objects;
mod pins;
mod policy_set;

use std::{
    collections::HashMap,
    os::fd::{AsFd as _, BorrowedFd},
    sync::Arc,
};

use aya::{
    EbpfLoader,
    programs::{CgroupAttachMode, SockOps, links::FdLink},
};
use tracing::warn;
use wad_common::tcp_sock::TcpSockOffsets;

pub use cgroup::Cgroup;
pub use error::TuningError;
pub use events::Events;
use maps::Maps;
pub use pins::{BPFFS, Pins, PinsError, exist};

use crate::{
    config::PathPolicy,
    instance::Instance,
    journal::Change,
    metrics::Readings,
    struct_ops::{
        BtfError, Callback, CongestionControl, KernelBtf, LinkedObject, StructOpsError, sys,
    },
};

const AIMD: &str = "wad_aimd";
const AIMD_CALLBACKS: [Callback; 4] = [
    Callback { member: "init", program: "aimd_init" },
    Callback { member: "ssthresh", program: "aimd_ssthresh" },
    Callback { member: "cong_avoid", program: "aimd_cong_avoid" },
    Callback { member: "undo_cwnd", program: "aimd_undo_cwnd" },
];

type Result<T, E = TuningError> = std::result::Result<T, E>;

/// The tuning of one instance.
pub struct Tuning {
    pins: Pins,
    maps: Maps,
}

/// How tuning came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Fresh,
    TakenOver,
}

/// What new tuning starts with.
pub struct Setup<'a> {
    pub instance: &'a Instance,
    pub cgroup: &'a Cgroup,
    pub paths: &'a [PathPolicy],
    pub max_memory_bytes: u64,
}

impl Tuning {
    /// Takes over what an agent of this build left, flows included, or brings
    /// everything into the kernel. If that fails half-way, what was made is
    /// removed again.
    pub fn start(pins: Pins, setup: &Setup<'_>) -> Result<(Self, Start)> {
        if !objects::are_embedded() {
            return Err(TuningError::NoObjects);
        }
        if is_attached_to(&pins, setup.cgroup) {
            let maps = take_over(&pins, setup)?;
            return Ok((Self { pins, maps }, Start::TakenOver));
        }
        pins.remove_current()?;
        match bring_up(&pins, setup) {
            Ok(maps) => Ok((Self { pins, maps }, Start::Fresh)),
            Err(error) => {
                // The first error is the one to report. Tuning of another build
                // that is still in force stays.
                if let Err(left) = pins.remove_current() {
                    warn!("{left}");
                }
                Err(error)
            }
        }
    }

    /// What the kernel side has counted.
    ///
    /// `changes` are what the journal would undo.
    pub fn readings(&self, changes: &[Change]) -> Result<Readings> {
        self.maps.readings(changes)
    }

    /// Names of the paths in force, by their policies' indices.
    pub fn names(&self) -> HashMap<u32, Arc<str>> {
        self.maps.names.iter().map(|(name, index)| (*index, name.clone())).collect()
    }

    /// The events of flows.
    pub fn events(&self) -> Result<Events> {
        Events::open(&self.pins.map("EVENTS"))
    }

    /// Takes everything out of the kernel. Flows go on: those under an
    /// algorithm of ours keep it until they end.
    pub fn remove(&self) -> Result<()> {
        Ok(self.pins.remove()?)
    }
}

fn bring_up(pins: &Pins, setup: &Setup<'_>) -> Result<Maps> {
    pins.make_folder()?;
    let btf = KernelBtf::read()?;
    let mut object = load_object(pins, &btf)?;
    let mut maps = Maps::open(pins)?;
    maps.set_max_memory(setup.max_memory_bytes)?;
    maps.install(setup.paths, setup.instance)?;
    let tuner = tuner(&mut object)?;
    tuner.load()?;
    // What another build left goes on until this one is known to load. Names of
    // algorithms are taken, so then it has to go first.
    pins.remove_others()?;
    register_algorithms(pins, setup.instance, &btf)?;
    attach(tuner, pins, setup.cgroup)?;
    Ok(maps)
}

fn take_over(pins: &Pins, setup: &Setup<'_>) -> Result<Maps> {
    let mut maps = Maps::open(pins)?;
    maps.set_max_memory(setup.max_memory_bytes)?;
    maps.install(setup.paths, setup.instance)?;
    Ok(maps)
}

/// Whether the tuner that an agent left is on this cgroup. On another one, or on
/// one that is gone, the ends of its flows go unseen: its counts are no use.
fn is_attached_to(pins: &Pins, cgroup: &Cgroup) -> bool {
    sys::open_pin(&pins.tuner_link())
        .is_ok_and(|link| cgroup::attached_to(link.as_fd()) == Some(cgroup.id))
}

/// Makes and pins the maps, and gets the tuner ready for loading.
fn load_object(pins: &Pins, btf: &KernelBtf) -> Result<aya::Ebpf> {
    let has_mptcp = u8::from(btf.structure("mptcp_sock").is_ok());
    let mut loader = EbpfLoader::new();
    loader.override_global("HAS_MPTCP", &has_mptcp, true);
    let paths: Vec<_> = maps::NAMES.iter().map(|name| (name, pins.map(name))).collect();
    for (name, path) in &paths {
        loader.map_pin_path(name, path);
    }
    Ok(loader.load(objects::tuner())?)
}

fn tuner(object: &mut aya::Ebpf) -> Result<&mut SockOps> {
    object
        .program_mut("wad_tuner")
        .and_then(|program| program.try_into().ok())
        .ok_or(TuningError::Lacks { what: "program", name: "wad_tuner" })
}

/// Attaches beside other programs; a link never replaces one.
fn attach(tuner: &mut SockOps, pins: &Pins, cgroup: &Cgroup) -> Result<()> {
    let id = tuner.attach(&cgroup.file, CgroupAttachMode::Single).map_err(|source| {
        TuningError::Attach {
            cgroup: cgroup.path.clone(),
            source: Box::new(source),
            others: cgroup.programs_in_the_way(),
        }
    })?;
    let link: FdLink = tuner.take_link(id)?.try_into()?;
    let path = pins.tuner_link();
    link.pin(&path).map_err(|source| TuningError::Pin { path, source })?;
    Ok(())
}

fn register_algorithms(pins: &Pins, instance: &Instance, btf: &KernelBtf) -> Result<()> {
    let offsets = tcp_sock_offsets(btf)?;
    // SAFETY: a plain record without padding.
    let offsets = unsafe {
        std::slice::from_raw_parts((&raw const offsets).cast::<u8>(), size_of_val(&offsets))
    };
    let maps = maps::NAMES
        .iter()
        .map(|name| Ok((*name, maps::open(pins, name)?)))
        .collect::<Result<Vec<_>>>()?;
    let fds: HashMap<&str, BorrowedFd<'_>> =
        maps.iter().map(|(name, map)| (*name, map.fd().as_fd())).collect();
    let globals = HashMap::from([("TCP_SOCK", (offsets, true))]);
    let object =
        LinkedObject::link(objects::congestion(), globals, &fds).map_err(StructOpsError::from)?;
    let name = instance.algorithm(AIMD);
    CongestionControl::register(&name, &AIMD_CALLBACKS, &object, btf)?
        .pin(&pins.algorithm(&name))?;
    Ok(())
}

fn tcp_sock_offsets(btf: &KernelBtf) -> Result<TcpSockOffsets, BtfError> {
    let tcp_sock = btf.structure("tcp_sock")?;
    let offset = |member| Ok(tcp_sock.member(member)?.offset_bytes());
    let limited = tcp_sock.member("is_cwnd_limited")?;
    Ok(TcpSockOffsets {
        snd_cwnd: offset("snd_cwnd")?,
        snd_ssthresh: offset("snd_ssthresh")?,
        snd_cwnd_clamp: offset("snd_cwnd_clamp")?,
        prior_cwnd: offset("prior_cwnd")?,
        max_packets_out: offset("max_packets_out")?,
        is_cwnd_limited: limited.offset_bytes(),
        is_cwnd_limited_mask: limited.bit_mask(),
        icsk_ca_priv: btf.offset_bytes("tcp_sock", "inet_conn.icsk_ca_priv")?,
    })
}
