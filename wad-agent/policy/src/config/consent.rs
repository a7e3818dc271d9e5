//! Whether a path takes more than its share, which has to be allowed.

use std::collections::HashSet;

use ipnet::IpNet;
use wad_common::{
    control::Control,
    law::{INITIAL_WINDOW_SEGMENTS, delay::LEAST_QUEUE_SEGMENTS},
};

use super::{
    PathPolicy, Windows,
    allow::Allow,
    congestion::Choice,
    fault::{Fault, Problem, Problems, quoted},
    overlap::Site,
    prefix::covers_ipv4,
    table::{Located, Table},
    unread::Unread,
};
use crate::{
    capacity::PACKET_BYTES,
    kernel_algorithm,
    law::{Consent, Law},
    pair::{decrease, fair_increase_segments},
    shares::{Filling, ShareAt, SharedPath, Shares},
};

/// Shortest prefixes on which more than a fair share may be allowed: what one
/// organisation may hold, and not the whole Internet.
const BOUNDED_IPV4_BITS: u8 = 8;
const BOUNDED_IPV6_BITS: u8 = 16;

/// The part of what the path carries that a flow may keep queued there: a 20th, which is
/// the most that `wad_delay` chooses by itself. Beside it CUBIC gets two thirds or more
/// of what it gets beside CUBIC where the queue holds a tenth of the path, and more where
/// it is longer; beside a tenth of the path it gets next to nothing there (the simulated
/// bottleneck of `wad-common/tests/delay_paths.rs`).
const PATH_PER_QUEUE: f64 = 20.0;
/// Where it is not known what the path carries: what a host sends at once, which any
/// flow puts into the queue; 64 kB.
const BURST_SEGMENTS: u32 = 45;

const ALLOW: &str = "where all who share the path agree, add allow = \"aggressive\"";

/// More than a CUBIC flow's share has to be allowed, and the networks named
/// on which it is. What is chosen on another host needs the same consent here: a file is
/// right or wrong wherever it is read. `others` are the rest of the list, each with the
/// policy that it would make.
pub fn check(
    table: &Table<'_>,
    (choice, policy): (&Choice, &PathPolicy),
    others: &[(&Choice, PathPolicy)],
    remote: &[Located<IpNet>],
    problems: &mut Problems,
) {
    let reasons_here = [
        share_reason(table, choice, policy),
        queue_reason(table, choice, policy),
        start_reason(table, policy),
    ];
    // What it may become by measurement is the same for all.
    let others = others.iter().filter(|_| choice.auto_loss.is_none());
    let of_others = others.flat_map(|(choice, policy)| {
        [share_reason(table, choice, policy), queue_reason(table, choice, policy)]
    });
    let mut reasons: Vec<Problem> = Vec::new();
    for reason in reasons_here.into_iter().chain(of_others).flatten() {
        // Two laws may have the same to say of the same key.
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if policy.allow.is_some() && !reasons.is_empty() {
        remote.iter().filter(|net| !is_bounded(net.value)).for_each(|net| {
            problems.push(too_wide(net.value, &reasons[0].fault).at(net.at));
        });
    // An `allow` that can't be read is an error of its own.
    } else if !table.has("allow") {
        reasons.into_iter().for_each(|problem| problems.push(problem));
    }
}

/// Whose consent a path waits for has to be known.
pub fn check_peers(
    (paths, sites): (&[PathPolicy], &[Site]),
    (peers, unread): (&HashSet<&str>, &Unread),
    problems: &mut Problems,
) {
    for (path, site) in paths.iter().zip(sites) {
        let Some(Allow::Peer(name)) = &path.allow else { continue };
        if !peers.contains(name.as_str()) && !unread.may_have(name) {
            let fault = Fault::new(
                format!("`allow`: no peer {}", quoted(name)),
                "no [[peer]] has that name",
            );
            let help = format!("add a [[peer]] with name = \"{name}\", or name one that there is");
            problems.push(fault.help(help).at(site.allow));
        }
    }
}

fn share_reason(table: &Table<'_>, choice: &Choice, policy: &PathPolicy) -> Option<Problem> {
    // What it may become needs the same consent as if it were so from the start.
    let (name, law, at) = match choice.auto_loss {
        Some(at) => (Law::Leaky.name(), Law::Leaky, at),
        None => {
            let congestion = choice.congestion.as_ref()?;
            let at = choice.at.unwrap_or(table.at);
            let Some(law) = congestion.answering_law() else {
                return Some(kernels_reason(congestion.name())?.at(at));
            };
            (congestion.name(), law, at)
        }
    };
    let More { law, shares, is_by_measurement } = more_than_fair(law, policy)?;
    match law.entry().consent {
        Consent::Always(reason) => {
            let reason = reason(shares.most());
            Some(Fault::new(reason.title, reason.label).help(ALLOW).at(at))
        }
        Consent::Never | Consent::ByQueue => None,
        Consent::ByPair => pair_reason(table, policy, &shares),
        Consent::ByPath if is_by_measurement => Some(measured_reason(&shares).at(at)),
        Consent::ByPath => Some(fast_reason(name, &shares).at(at)),
    }
}

/// Returns a reason where one of the kernel's algorithms may take more than CUBIC, or where
/// nobody knows.
fn kernels_reason(name: &str) -> Option<Fault> {
    let why = kernel_algorithm::consent_reason(name)?;
    let title = format!("{name} may take more than a CUBIC flow's share");
    let help = format!("{ALLOW}; \"cubic\" and \"reno\" need no consent");
    Some(Fault::new(title, why).help(help))
}

/// A path takes so much more than its share.
struct More {
    /// The law that its share is of.
    law: Law,
    shares: Shares,
    /// It depends on what is measured.
    is_by_measurement: bool,
}

/// Returns what flows take under a law on this path, where that has to be allowed.
fn more_than_fair(law: Law, policy: &PathPolicy) -> Option<More> {
    let measured = measured_law(law, policy);
    let law = measured.unwrap_or(law);
    let path = match measured {
        // It may turn out other than the file says: as on any path.
        Some(_) => SharedPath::default(),
        None => policy.origin.capacity.into(),
    };
    let shares = Shares::of(law, &policy.control, path)?;
    let needs_consent = match law.entry().consent {
        // At any loss rate, also at those that are not told of.
        Consent::Always(_) => true,
        Consent::Never | Consent::ByQueue => false,
        Consent::ByPair | Consent::ByPath => shares.exceed_fair(),
    };
    needs_consent.then_some(More { law, shares, is_by_measurement: measured.is_some() })
}

/// Returns the policy without what takes more than a fair share: what the same file would give
/// if it said nothing of that. Of a law that does there is nothing left but the kernel's
/// default, of a standing queue the law's own, of an initial window the standard one.
#[must_use]
pub fn fair(policy: &PathPolicy) -> PathPolicy {
    let mut fair = PathPolicy { allow: None, ..policy.clone() };
    if takes_more(policy) {
        fair.congestion = None;
        fair.control = Control::STANDARD;
        fair.origin.traits.loss = false;
        fair.origin.passed_over = Vec::new();
        if let Some(measured) = &mut fair.measured {
            measured.traits.loss = false;
            measured.aimd_is_auto = false;
            measured.windows = Windows::default();
        }
    }
    if fair.law().is_some_and(|law| long_queue(law, policy).is_some()) {
        fair.control.standing_queue_segments = 0;
    }
    fair.initial_window_segments =
        fair.initial_window_segments.filter(|&window| window <= INITIAL_WINDOW_SEGMENTS);
    fair
}

/// Returns whether a path's congestion control may take more than a fair share.
fn takes_more(policy: &PathPolicy) -> bool {
    let law = match (policy.origin.traits.loss, &policy.congestion) {
        (true, _) => Some(Law::Leaky),
        (false, None) => None,
        (false, Some(congestion)) => match congestion.answering_law() {
            None => return kernel_algorithm::consent_reason(congestion.name()).is_some(),
            law => law,
        },
    };
    law.is_some_and(|law| more_than_fair(law, policy).is_some())
}

/// A flow that fills the queue leaves no room for those that yield when it is full.
fn queue_reason(table: &Table<'_>, choice: &Choice, policy: &PathPolicy) -> Option<Problem> {
    let at = table.place("standing_queue")?;
    let LongQueue { path_segments } = long_queue(choice.law()?, policy)?;
    let queue_segments = policy.control.standing_queue_segments;
    let title = format!("a standing queue of {queue_segments} segments crowds others out");
    let (label, more) = match path_segments {
        Some(path) => (format!("more than a 20th of the path's {path:.0}"), ""),
        None => (
            format!("more than the {BURST_SEGMENTS} of any host's burst"),
            "; `bandwidth` and `rtt` say what is long on this path",
        ),
    };
    Some(Fault::new(title, label).help(format!("{ALLOW}{more}")).at(at))
}

/// A standing queue is long for this path.
struct LongQueue {
    path_segments: Option<f64>,
}

fn long_queue(law: Law, policy: &PathPolicy) -> Option<LongQueue> {
    if !matches!(law.entry().consent, Consent::ByQueue) {
        return None;
    }
    let path_segments = policy.bdp_bytes.map(|bytes| bytes as f64 / PACKET_BYTES);
    let most_segments = match path_segments {
        Some(path_segments) => (path_segments / PATH_PER_QUEUE) as u32,
        None => BURST_SEGMENTS,
    };
    // Less than it keeps by itself on the smallest path is no more than its own choice.
    let is_long = policy.control.standing_queue_segments > most_segments.max(LEAST_QUEUE_SEGMENTS);
    is_long.then_some(LongQueue { path_segments })
}

/// The law whose share follows from what is measured, if it does.
fn measured_law(law: Law, policy: &PathPolicy) -> Option<Law> {
    let measured = policy.measured?;
    if measured.aimd_is_auto && law.takes("additive_increase") {
        // RFC 3649's pair takes at the path's window what the law of that RFC does.
        return Some(Law::HighSpeed);
    }
    law.share_depends_on_path().then_some(law)
}

fn measured_reason(shares: &Shares) -> Fault {
    let ShareAt { loss, share } = shares.most;
    let title = format!("this takes up to {share:.1} times a CUBIC flow's share");
    let label = format!("at a loss rate of {loss:e}, if so large a path is measured");
    Fault::new(title, label).help(ALLOW)
}

/// Returns a problem where a pair takes more than CUBIC's Reno-friendly region, in which the
/// pair's share is the same at any loss rate.
fn pair_reason(table: &Table<'_>, policy: &PathPolicy, shares: &Shares) -> Option<Problem> {
    let ShareAt { loss, share } = shares.most;
    let title = format!("this takes up to {share:.2} times a CUBIC flow's share");
    let fault = Fault::new(title, format!("at a loss rate of {}", rate(loss)));
    if let Some(at) = table.place("equivalent_streams") {
        return Some(fault.help(ALLOW).at(at));
    }
    let at = table.place("additive_increase").or_else(|| table.place("decrease"))?;
    let fair = fair_increase_segments(decrease(policy.control.aimd));
    let help = format!("{ALLOW}; additive_increase = {fair:.3} is fair with this decrease");
    Some(fault.help(help).at(at))
}

/// The law of a fast path: the fewer losses, the greater its share.
fn fast_reason(name: &str, shares: &Shares) -> Fault {
    let ShareAt { loss, share } = shares.most;
    let title = format!("{name} takes up to {share:.1} times a CUBIC flow's share");
    let loss = rate(loss);
    if shares.is_most_when_filling() {
        let label = format!(
            "at a loss rate of {loss}, where it fills the path with packets of {PACKET_BYTES} bytes"
        );
        return Fault::new(title, label).help(ALLOW);
    }
    let label = match shares.is_rtt_known {
        true => format!("at a loss rate of {loss}"),
        false => format!("at a loss rate of {loss}; without `rtt`, CUBIC's least window counts"),
    };
    let help = match shares.filling {
        Filling::Unknown if shares.is_rtt_known => {
            format!("{ALLOW}; `bandwidth` says what it takes on this path")
        }
        Filling::Unknown => {
            format!("{ALLOW}; `bandwidth` and `rtt` say what it takes on this path")
        }
        Filling::At(_) | Filling::Always => ALLOW.to_owned(),
    };
    Fault::new(title, label).help(help)
}

/// Returns a loss rate in the two digits that mean something.
fn rate(loss: f64) -> String {
    let text = format!("{loss:.1e}");
    text.replace(".0e", "e")
}

fn start_reason(table: &Table<'_>, policy: &PathPolicy) -> Option<Problem> {
    let at = table.place("initial_window")?;
    let window = policy.initial_window_segments?;
    if window <= INITIAL_WINDOW_SEGMENTS {
        return None;
    }
    let times = f64::from(window) / f64::from(INITIAL_WINDOW_SEGMENTS);
    let title = format!("this starts at {times:.1} times the usual initial window");
    let label = format!("RFC 6928 has {INITIAL_WINDOW_SEGMENTS}");
    Some(Fault::new(title, label).help(ALLOW).at(at))
}

/// Returns whether this is no default route: `::ffff:0:0/96` is IPv4's, and shorter
/// ones hold it.
pub fn is_bounded(net: IpNet) -> bool {
    match net {
        IpNet::V4(net) => net.prefix_len() >= BOUNDED_IPV4_BITS,
        IpNet::V6(_) => net.prefix_len() >= BOUNDED_IPV6_BITS && !covers_ipv4(net),
    }
}

fn too_wide(net: IpNet, reason: &Fault) -> Fault {
    let title = format!("{net} is too wide for allow = \"aggressive\": {}", reason.title);
    let label = match net {
        IpNet::V6(_) if covers_ipv4(net) => "all of IPv4 is in it, as ::ffff:0:0/96",
        _ => "beside all other traffic there",
    };
    Fault::new(title, label).help(format!(
        "name the networks that agree to it: /{BOUNDED_IPV4_BITS} or longer, \
         for IPv6 /{BOUNDED_IPV6_BITS} or longer"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, testing::host};

    fn path(keys: &str) -> PathPolicy {
        let text = format!("[[path]]\nname = 'p'\nremote = '10.0.0.1'\n{keys}\n");
        Config::parse("wad.toml", &text, &host())
            .unwrap_or_else(|error| panic!("{error}"))
            .paths
            .remove(0)
    }

    #[test]
    fn a_fair_form_takes_no_consent_and_keeps_what_takes_none() {
        for keys in [
            "congestion = 'wad_highspeed'",
            "congestion = 'wad_scalable'\nbandwidth = '1Gbit'\nrtt = '100ms'",
            "additive_increase = 6\ndecrease = 0.3\nsndbuf = '4MiB'",
            "equivalent_streams = 4",
            "additive_increase = 'auto'\nmode = 'measured'",
            "loss = 'leaky'",
            "loss = 'auto'\nmode = 'measured'\ncongestion = 'reno'",
            "dedicated = '622Mbit'\nrtt = '70ms'",
            "congestion = 'wad_delay'\nstanding_queue = 1000",
            "initial_window = 100\ncongestion = 'wad_aimd'",
            "congestion = 'bbr'\nsndbuf = '4MiB'",
            "congestion = ['vegas', 'highspeed']\ninitial_window = 20",
        ] {
            let file = path(&format!("{keys}\nallow = 'aggressive'"));
            let form = fair(&file);
            assert!(!takes_more(&form), "{keys}");
            assert!(form.law().is_none_or(|law| long_queue(law, &form).is_none()), "{keys}");
            assert!(form.initial_window_segments.is_none_or(|it| it <= 10), "{keys}");
            assert_eq!(form.sndbuf_bytes, file.sndbuf_bytes, "{keys}");
            assert_eq!(fair(&form), form, "{keys}");
            assert_ne!(form, PathPolicy { allow: None, ..file }, "{keys}");
        }
        let delay =
            fair(&path("congestion = 'wad_delay'\nstanding_queue = 1000\nallow = 'aggressive'"));
        assert_eq!(delay.law(), Some(Law::Delay));
        let modest = path("congestion = 'wad_aimd'\ndecrease = 0.4\nadditive_increase = 0.5");
        assert_eq!(fair(&modest), modest);
    }
}
