//! Tells why a policy gives what it gives: where the numbers come from.

use wad_common::policy::{DIVIDES, Policy};
use wad_policy::{
    config::{AUTO_HEADROOM, ByPeer, Consented, Cut, InForce, Most, Origin, fields},
    kernel_algorithm,
    law::Law,
    shares::{ShareAt, Shares},
    tuning_plan::ROOM,
};
use wad_toolbox::shown::text;

use crate::readings::PathState;

/// The path's.
pub fn name(policy: &Policy) -> String {
    text(&policy.name)
}

/// Returns where the settings come from, and what they do not say by themselves.
pub fn of(policy: &Policy, origin: &Origin, state: PathState) -> Vec<String> {
    let mut why = Vec::new();
    match state {
        PathState::Tuned => {}
        PathState::Observed => {
            why.push("nothing of this is given to flows: mode = \"observe\"".to_owned());
        }
        PathState::Disabled => why.push(
            "nothing of this is given to flows: the path is disabled until `wad enable`".to_owned(),
        ),
        PathState::HeldBack => why.push(
            "nothing of this is given to flows: the path's guard holds it back, see `wad guard show`"
                .to_owned(),
        ),
    }
    why.extend(buffers(policy, origin));
    let in_force = InForce { policy, origin };
    let lists = [origin.remote_sets_words(), origin.remote_names_words()];
    why.extend(lists.into_iter().flatten().map(|lists| format!("the path is for {lists}")));
    why.extend(origin.passed_over_words());
    why.extend(origin.by_peer.iter().flat_map(|by_peer| by_peer_words(by_peer, policy, origin)));
    why.extend(fields::all().filter_map(|field| (field.why)(in_force)).map(str::to_owned));
    why.extend(share(in_force));
    why
}

/// Returns the peers that have a say in the path.
pub fn peers(origin: &Origin) -> Vec<String> {
    let Some(ByPeer { peer, waits_for, .. }) = origin.by_peer.as_deref() else { return Vec::new() };
    let around = Some(peer).filter(|peer| !peer.is_empty());
    let waits_for = waits_for.as_ref().filter(|name| *name != peer);
    around.into_iter().chain(waits_for).cloned().collect()
}

/// Returns what the path's flows take beside CUBIC's; None where nothing says so.
fn share(in_force: InForce<'_>) -> Option<String> {
    let InForce { policy, origin } = in_force;
    let name = in_force.congestion()?;
    let Some(law) = Law::of_algorithm(&name).or_else(|| Law::as_kernels(&name)) else {
        let why = kernel_algorithm::consent_reason(&name)?;
        return Some(format!("{name} may take more than a CUBIC flow's share: {why}"));
    };
    let shares = Shares::of(law, &policy.control, origin.capacity)?;
    let ShareAt { loss, share } = shares.most;
    let beside = match shares.is_rtt_known {
        true => "at the same losses and round trip time",
        false => "at the same losses (no round trip time is known: over its least at any)",
    };
    Some(match share {
        _ if !shares.exceed_fair() => {
            format!("its flows take no more than a CUBIC flow's share, {beside}")
        }
        share if share.is_infinite() => {
            "its flows take what there is, whatever a CUBIC flow's share".to_owned()
        }
        share => format!(
            "its flows take up to {share:.2} times a CUBIC flow's share, {beside}: the most at a \
             loss rate of {loss:.1e}"
        ),
    })
}

/// Says what a peer's word makes of the path.
fn by_peer_words(by_peer: &ByPeer, policy: &Policy, origin: &Origin) -> Vec<String> {
    let ByPeer { peer, bound, waits_for, consented, own, .. } = by_peer;
    let mut why = Vec::new();
    let rate = origin.capacity.bits_per_second;
    if let Some((rate, own)) = rate.zip(own.bits_per_second).filter(|(rate, own)| rate < own) {
        why.push(format!(
            "its rate is the {} of the slower interface of both ends, as peer {peer} says, and \
             not {}",
            Rate(rate),
            Rate(own)
        ));
    }
    if own.sndbuf_bytes.is_some_and(|own| policy.sndbuf_bytes < own) {
        let granted = bound.granted_bytes.unwrap_or(0);
        why.push(format!(
            "sndbuf is no more than is of use: peer {peer} grants a rcvbuf of {granted} bytes"
        ));
    }
    match (waits_for, consented) {
        (None, _) | (_, Consented::NotAsked) => {}
        (Some(name), Consented::No) => why.push(format!(
            "peer {name} does not consent to more than a fair share now: the path is in its fair \
             form, without what `allow` is for"
        )),
        (Some(name), Consented::Yes { max_bits_per_second: None }) => {
            why.push(format!("peer {name} consents to more than a fair share"));
        }
        (Some(name), Consented::Yes { max_bits_per_second: Some(most) }) => why.push(format!(
            "peer {name} consents to more than a fair share, up to {} for all of the path's flows \
             together",
            Rate(*most)
        )),
    }
    why
}

fn buffers(policy: &Policy, origin: &Origin) -> Vec<String> {
    let mut why = Vec::new();
    let (auto, cut) = (origin.buffers, origin.cut);
    let sizes = [
        ("sndbuf", policy.sndbuf_bytes, (auto.sndbuf, cut.sndbuf)),
        ("rcvbuf", policy.rcvbuf_bytes, (auto.rcvbuf, cut.rcvbuf)),
    ];
    for (key, bytes, (is_auto, cut)) in sizes.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
        let cut_from = cut.map_or_else(String::new, |Cut { from_bytes, to }| {
            format!(", which {} cuts from {from_bytes} bytes", to.by)
        });
        if let Some(ByPeer { peer, rcvbuf: true, .. }) = origin.by_peer.as_deref()
            && key == "rcvbuf"
        {
            why.push(format!(
                "rcvbuf grows with need up to what the path of peer {peer} needs it for{cut_from}"
            ));
            continue;
        }
        let Some((rate, rtt)) = origin.capacity.bits_per_second.zip(origin.capacity.rtt_seconds)
        else {
            why.push(format!("{key} is {bytes} bytes because {}", word(cut)));
            continue;
        };
        let bdp_bytes = rate / 8.0 * rtt;
        let path = format!("{} times {} are {bdp_bytes:.0} bytes", Rate(rate), Rtt(rtt));
        why.push(match (is_auto, origin.streams) {
            (false, _) => format!(
                "{key} is {bytes} bytes because {}; {path}, of which it is {}",
                word(cut),
                Times(f64::from(bytes) / bdp_bytes)
            ),
            (true, 0 | 1) => format!(
                "{key} grows with need up to that{cut_from}, {AUTO_HEADROOM} times what the path \
                 holds: {path}"
            ),
            (true, k) => format!(
                "{key} grows with need up to that{cut_from}, {AUTO_HEADROOM} times what the path \
                 holds for each of {k} streams: {path}"
            ),
        });
    }
    if !why.is_empty() && origin.capacity.is_least {
        why.push(format!(
            "that rate is {ROOM} times what the path's flows got: each may get more than the last"
        ));
    }
    if let Some(bdp_bytes) = origin.capacity.bdp_bytes().filter(|_| origin.buffers.autotune) {
        let most = origin
            .cut
            .autotune
            .map_or_else(String::new, |Cut { to: Most { bytes, by }, .. }| {
                format!("{bytes} bytes, to which {by} cuts ")
            });
        why.push(format!(
            "the kernel sizes both buffers, up to 2 times {most}{AUTO_HEADROOM} times the \
             {bdp_bytes:.0} bytes that the path holds: `wad run` raises the last of tcp_wmem and \
             tcp_rmem so far, for all flows of its network namespace, and there where the path's \
             flows are"
        ));
        return why;
    }
    if policy.flags & DIVIDES != 0 {
        why.push(
            "each of the path's flows gets an equal part, but no less than the kernel's default"
                .to_owned(),
        );
    }
    if !why.is_empty() {
        why.push("the kernel doubles both buffers, for structures of its own".to_owned());
    }
    why
}

/// Says whose word a buffer of a given size is.
fn word(cut: Option<Cut>) -> String {
    let so = "the configuration says so".to_owned();
    cut.map_or(so, |Cut { from_bytes, to }| {
        format!("{} cuts it from the {from_bytes} that the path asks for", to.by)
    })
}

struct Rate(f64);

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, unit) = match self.0 {
            rate if rate >= 1e9 => (rate / 1e9, "Gbit/s"),
            rate if rate >= 1e6 => (rate / 1e6, "Mbit/s"),
            rate => (rate / 1e3, "kbit/s"),
        };
        write!(f, "{} {unit}", rounded(number))
    }
}

/// How much something is of something else.
struct Times(f64);

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // With two digits it could be nothing at all.
        if self.0 < 0.01 {
            return f.write_str("less than a hundredth");
        }
        write!(f, "{:.2} times as much", self.0)
    }
}

/// Returns what fixed point keeps.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

struct Rtt(f64);

impl std::fmt::Display for Rtt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ms", rounded(self.0 * 1e3))
    }
}
