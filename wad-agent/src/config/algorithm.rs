//! Congestion control of a path, and whether it takes more than its share.

use std::ops::RangeInclusive;

use ipnet::IpNet;
use wad_common::law::{Aimd, aimd::ONE_Q16};

use super::{
    Congestion, Host, PathPolicy,
    fault::{Fault, Problems, quoted},
    prefix::covers_ipv4,
    share::{decrease, fair_increase_segments, share},
    table::{self, Field, Table},
};

/// Our own congestion control.
pub const WAD_AIMD: &str = "wad_aimd";

/// The range of the law for `a`, segments for each RTT.
const INCREASE: RangeInclusive<f64> = 0.0625..=4096.0;
/// The range of the law for `b`.
const DECREASE: RangeInclusive<f64> = 0.01..=0.9;

/// RFC 6928: what any flow may start with.
const STANDARD_INITIAL_WINDOW_SEGMENTS: u32 = 10;

/// Within half a percent of a standard flow's share counts as one: so much can
/// come from writing an increase with two digits.
const FAIR_SHARE: f64 = 1.005;

/// Shortest prefixes on which more than a fair share may be allowed: what one
/// organisation may hold, and not the whole Internet.
const BOUNDED_IPV4_BITS: u8 = 8;
const BOUNDED_IPV6_BITS: u8 = 16;

const ALLOW: &str = "where all who share the path agree, add allow = \"aggressive\"";

pub fn read_congestion(
    table: &Table<'_>,
    host: &Host,
    problems: &mut Problems,
) -> Option<Congestion> {
    let aimd_keys: Vec<_> =
        ["additive_increase", "decrease"].into_iter().filter(|key| table.has(key)).collect();
    if !table.has("congestion") {
        return aimd_keys.first().map(|_| Congestion::WadAimd);
    }
    let congestion = table.read("congestion", problems, |value| {
        let name = table::text(value)?;
        if name == WAD_AIMD { Ok(Congestion::WadAimd) } else { kernel(name, host) }
    })?;
    if let Congestion::Kernel(name) = &congestion.value {
        for key in aimd_keys {
            let title = format!("`{key}` has no effect on {name}");
            let fault = Fault::new(title, format!("only {WAD_AIMD} has it"));
            let fault = fault.help("leave one of the two out");
            let at = table.place(key).unwrap_or(table.at);
            problems.push(fault.at(at).also(congestion.at, "one of the kernel's"));
        }
    }
    Some(congestion.value)
}

fn kernel(name: &str, host: &Host) -> Result<Congestion, Fault> {
    let available = &host.congestion_controls;
    if available.iter().any(|known| known == name) {
        return Ok(Congestion::Kernel(name.to_owned()));
    }
    let title = format!("no congestion control {} on this host", quoted(name));
    let others = available.iter().filter(|known| *known != WAD_AIMD);
    let known: Vec<_> = [WAD_AIMD].into_iter().chain(others.map(String::as_str)).collect();
    Err(Fault::new(title, "the running kernel does not have it").help(format!(
        "there are {}; a module of the kernel's has to be loaded first, as with `modprobe tcp_bbr`",
        known.join(", ")
    )))
}

pub fn read_aimd(table: &Table<'_>, problems: &mut Problems) -> Aimd {
    // Both in range, hence whole.
    let q16 = |number: f64| (number * f64::from(ONE_Q16)).round() as u32;
    let increase = table.read("additive_increase", problems, |value| {
        table::number(value, INCREASE, "segments for each RTT")
    });
    let decrease = table.read("decrease", problems, |value| {
        let help = "it is the fraction of the window given up at a loss: 0.5 is standard";
        table::number(value, DECREASE, "").map_err(|fault| fault.help(help))
    });
    Aimd {
        increase_q16: increase.map_or(Aimd::STANDARD.increase_q16, |a| q16(a.value)),
        // Rounded down, so that 0.3 of 80 segments leaves 56 and not 55.
        keep_q16: decrease.map_or(Aimd::STANDARD.keep_q16, |b| {
            ONE_Q16 - (b.value * f64::from(ONE_Q16)).floor() as u32
        }),
    }
}

pub fn read_allow(table: &Table<'_>, problems: &mut Problems) -> bool {
    let allow = table.read("allow", problems, |value| match table::text(value)? {
        "aggressive" => Ok(()),
        other => {
            let title = format!("{} is nothing to allow", quoted(other));
            Err(Fault::new(title, "it takes \"aggressive\""))
        }
    });
    allow.is_some()
}

/// More than a standard flow's share has to be allowed, and the networks named
/// on which it is.
pub fn check_share(
    table: &Table<'_>,
    policy: &PathPolicy,
    remote: &[Field<IpNet>],
    problems: &mut Problems,
) {
    let mut reasons = Vec::new();
    let share = share(policy.aimd);
    let at = table.place("additive_increase").or_else(|| table.place("decrease"));
    if let Some(at) = at.filter(|_| share > FAIR_SHARE) {
        let fair = fair_increase_segments(decrease(policy.aimd));
        let title = format!("this takes {share:.2} times a standard flow's share");
        let help = format!("{ALLOW}; additive_increase = {fair:.3} is fair with this decrease");
        reasons.push(Fault::new(title, "at the same losses").help(help).at(at));
    }
    let window = policy.initial_window_segments.unwrap_or(0);
    let at = table.place("initial_window");
    if let Some(at) = at.filter(|_| window > STANDARD_INITIAL_WINDOW_SEGMENTS) {
        let times = f64::from(window) / f64::from(STANDARD_INITIAL_WINDOW_SEGMENTS);
        let title = format!("this starts at {times:.1} times a standard flow's window");
        let label = format!("RFC 6928 has {STANDARD_INITIAL_WINDOW_SEGMENTS}");
        reasons.push(Fault::new(title, label).help(ALLOW).at(at));
    }
    if policy.allow_aggressive && !reasons.is_empty() {
        remote.iter().filter(|net| !is_bounded(net.value)).for_each(|net| {
            problems.push(too_wide(net.value, &reasons[0].fault).at(net.at));
        });
    // An `allow` that can't be read is an error of its own.
    } else if !table.has("allow") {
        reasons.into_iter().for_each(|problem| problems.push(problem));
    }
}

/// No default route: `::ffff:0:0/96` is IPv4's, and shorter ones hold it.
fn is_bounded(net: IpNet) -> bool {
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

    #[test]
    fn the_ranges_are_those_of_the_law() {
        let one = f64::from(ONE_Q16);
        let q16 = |number: f64| (number * one).round() as u32;
        for (increase, decrease) in
            [(INCREASE.start(), DECREASE.start()), (INCREASE.end(), DECREASE.end())]
        {
            assert!(Aimd::try_new(q16(*increase), ONE_Q16 - q16(*decrease)).is_some());
        }
        assert!(Aimd::try_new(q16(*INCREASE.start()) - 1, ONE_Q16 / 2).is_none());
        assert!(Aimd::try_new(q16(*INCREASE.end()) + 1, ONE_Q16 / 2).is_none());
        assert!(Aimd::try_new(ONE_Q16, ONE_Q16 - q16(*DECREASE.end()) - 1).is_none());
        assert!(Aimd::try_new(ONE_Q16, ONE_Q16 - q16(*DECREASE.start()) + 1).is_none());
    }
}
