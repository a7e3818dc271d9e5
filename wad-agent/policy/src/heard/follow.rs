//! Makes of what peers say what the paths are to be: those of the file, and one for each peer
//! whose flows need larger receive buffers here and no path of the file is for.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use wad_common::policy::{MAX_PATHS, NAME_BYTES};

use super::{Counted, counted::CountedConsent};
use crate::{
    config::{
        Allow, AutoBuffers, Bound, ByPeer, Consented, Cut, CutBuffers, DEFAULT_BAND, HostChanges,
        Mapped, Origin, PathPolicy, Unfit, fair, fit, is_bounded,
    },
    learned,
    tuning_plan::{Bounds, by_peer, is_beyond},
};

/// The names of paths that are there by a peer's word begin so.
pub const NAME_PREFIX: &str = "peer-";

/// Has paths follow what counts. Those that wait for a consent get what the file says if it is
/// there, and are in their fair form if not.
pub fn follow(counted: &[Counted], paths: &mut [PathPolicy], bounds: Bounds) {
    let served: Vec<_> = counted.iter().map(|peer| served(peer, paths)).collect();
    let index = Index::of(counted);
    for path in paths {
        let waits_for = match &path.allow {
            Some(Allow::Peer(name)) => Some(name.clone()),
            _ => None,
        };
        let is_named = |peer: &Counted| waits_for.as_ref().is_some_and(|name| *name == peer.peer);
        let named = counted.iter().position(is_named);
        let around = named.filter(|&at| speaks_for(&counted[at], path));
        let around =
            around.or_else(|| index.around(path).find(|&at| speaks_for(&counted[at], path)));
        let mut by_peer = around.map_or_else(ByPeer::default, |at| of_path(&counted[at], path));
        if let Some(name) = waits_for {
            let most = named.and_then(|at| allowed(&counted[at], served[at], path));
            by_peer.consented = match most {
                Some(max_bits_per_second) => Consented::Yes { max_bits_per_second },
                None => Consented::No,
            };
            by_peer.bound.max_bits_per_second = most.flatten();
            by_peer.waits_for = Some(name);
            if most.is_none() {
                *path = fair(path);
            }
        } else if around.is_none() {
            continue;
        }
        put(by_peer, path, around.map(|at| &counted[at]), bounds);
    }
}

/// Finds the peers of a prefix among all: there may be 100,000 paths.
#[derive(Default)]
struct Index {
    peers: BTreeMap<Mapped, Vec<usize>>,
    /// The lengths of their prefixes.
    lengths: BTreeSet<u8>,
}

impl Index {
    fn of(counted: &[Counted]) -> Self {
        let mut index = Self::default();
        for (at, peer) in counted.iter().enumerate() {
            for net in peer.prefixes.iter().map(|&net| Mapped::from(net)) {
                index.lengths.insert(net.bits);
                index.peers.entry(net).or_default().push(at);
            }
        }
        index
    }

    /// Returns those that have a prefix around the first of the path's.
    fn around(&self, path: &PathPolicy) -> impl Iterator<Item = usize> {
        let first = path.remote.first().map(|&net| Mapped::from(net));
        let nets = first.into_iter().flat_map(move |net| {
            let lengths = self.lengths.range(..=net.bits);
            lengths.filter_map(move |&bits| self.peers.get(&net.around(bits)))
        });
        nets.flatten().copied()
    }
}

/// Whether all of the path's flows go to the peer's networks.
fn speaks_for(peer: &Counted, path: &PathPolicy) -> bool {
    let is_within = |remote| peer.prefixes.iter().any(|net| net.contains(remote));
    !path.remote.is_empty() && path.remote.iter().all(is_within)
}

/// Returns how many paths share a peer's consent.
fn served(peer: &Counted, paths: &[PathPolicy]) -> usize {
    let waits = |path: &&PathPolicy| {
        matches!(&path.allow, Some(Allow::Peer(name)) if *name == peer.peer)
            && peer.consent.as_ref().is_some_and(|consent| is_for(consent, path, band(path)))
    };
    paths.iter().filter(waits).count()
}

fn band(path: &PathPolicy) -> u32 {
    path.measured.map_or(DEFAULT_BAND, |measured| measured.band)
}

/// Returns the most that the path may take by the peer's consent, its part of what that is for;
/// None where it may not.
fn allowed(peer: &Counted, served: usize, path: &PathPolicy) -> Option<Option<f64>> {
    let consent = peer.consent.as_ref().filter(|consent| is_for(consent, path, band(path)))?;
    Some(consent.max_bits_per_second.map(|most| most / served.max(1) as f64))
}

/// Whether a consent is one for this path: for all of its prefixes, at a rate that the file
/// could have meant.
fn is_for(consent: &CountedConsent, path: &PathPolicy, band: u32) -> bool {
    let is_within = |remote| consent.prefixes.iter().any(|net| net.contains(remote));
    let rate = path.origin.capacity.bits_per_second;
    let is_meant = match consent.max_bits_per_second.zip(rate) {
        Some((most, rate)) => most * f64::from(band) >= rate,
        None => true,
    };
    !path.remote.is_empty() && path.remote.iter().all(is_within) && is_meant
}

fn of_path(peer: &Counted, path: &PathPolicy) -> ByPeer {
    let Counted { granted_bytes, nic_bits_per_second, .. } = *peer;
    // What flows that are only counted have is as it is.
    let bound = match path.observe {
        true => Bound::default(),
        false => Bound { granted_bytes, nic_bits_per_second, max_bits_per_second: None },
    };
    ByPeer { peer: peer.peer.clone(), bound, ..ByPeer::default() }
}

/// Gives the path what it has by the peer around it.
fn put(mut by_peer: ByPeer, path: &mut PathPolicy, around: Option<&Counted>, bounds: Bounds) {
    let has_room = path.rcvbuf_bytes.is_some() || path.autotune_bytes.is_some();
    let rcvbuf = around.and_then(|peer| rcvbuf(peer, bounds));
    if let Some((bytes, cut)) = rcvbuf.filter(|_| !path.observe && !has_room) {
        path.rcvbuf_bytes = Some(bytes);
        path.origin.cut.rcvbuf = cut;
        path.origin.buffers.rcvbuf = true;
        by_peer.rcvbuf = true;
    }
    if path.measured.is_none() {
        by_peer::bound_file(&mut by_peer, path, (DEFAULT_BAND, bounds.kernel()));
        by_peer::finish(&mut by_peer, path, bounds.kernel());
    }
    path.origin.by_peer = Some(Box::new(by_peer));
}

/// Returns the receive buffer that the peer's flows are to have; None where the kernel gives as
/// much by itself.
fn rcvbuf(peer: &Counted, bounds: Bounds) -> Option<(u32, Option<Cut>)> {
    let (bytes, cut) = bounds.most().cut(peer.rcvbuf_bytes?.into());
    is_beyond(bytes.into(), bounds.kernel().rcvbuf_bytes).then_some((bytes, cut))
}

/// Returns paths for networks whose peers need larger receive buffers here, and that no path of
/// the file is for.
#[must_use]
pub fn paths(counted: &[Counted], of_file: &[PathPolicy], bounds: Bounds) -> Vec<PathPolicy> {
    let mut paths: Vec<PathPolicy> = Vec::new();
    for peer in counted {
        let Some((rcvbuf, cut)) = rcvbuf(peer, bounds) else { continue };
        let name = name(&peer.peer);
        let covered = learned::covered(&peer.prefixes, of_file);
        let is_free =
            |net: &&IpNet| is_bounded(**net) && covered.iter().all(|it| it.remote != **net);
        let remote: Vec<_> = peer.prefixes.iter().filter(is_free).copied().collect();
        let is_taken = of_file.iter().chain(&paths).any(|path| path.name == name);
        if remote.is_empty() || is_taken {
            continue;
        }
        let by_peer = ByPeer { peer: peer.peer.clone(), rcvbuf: true, ..ByPeer::default() };
        let buffers = AutoBuffers { rcvbuf: true, ..AutoBuffers::default() };
        let cut = CutBuffers { rcvbuf: cut, ..CutBuffers::default() };
        paths.push(PathPolicy {
            name,
            remote,
            rcvbuf_bytes: Some(rcvbuf),
            origin: Origin { buffers, cut, by_peer: Some(Box::new(by_peer)), ..Origin::default() },
            ..PathPolicy::default()
        });
    }
    paths
}

/// Adds such paths to all others. Where all together do not fit, none is added.
pub fn add(
    heard: Vec<PathPolicy>,
    (paths, host): (&mut Vec<PathPolicy>, &HostChanges),
) -> Result<(), Unfit> {
    let others = paths.len();
    paths.extend(heard.into_iter().take((MAX_PATHS as usize).saturating_sub(others)));
    if paths.len() > others
        && let Err(unfit) = fit(paths, host)
    {
        paths.truncate(others);
        return Err(unfit);
    }
    Ok(())
}

/// Returns the name of the path that is there by a peer's word, as long as names may be.
fn name(peer: &str) -> String {
    let mut name = format!("{NAME_PREFIX}{peer}");
    name.truncate(name.floor_char_boundary(NAME_BYTES - 1));
    name
}
