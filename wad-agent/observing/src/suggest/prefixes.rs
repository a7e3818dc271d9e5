//! Groups addresses into prefixes: those beside each other whose connections are alike by
//! RTT, by rate, and by what would help.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use wad_policy::tuning_plan::KernelBuffers;

use super::totals::Totals;

/// No shorter prefix is suggested, whatever was seen in it.
const SHORTEST_V4: u8 = 24;
const SHORTEST_V6: u8 = 64;
/// RTTs are alike within this factor, or so many seconds.
const RTT_FACTOR: f64 = 1.25;
const RTT_SECONDS: f64 = 1e-3;
/// Rates are within this.
const RATE_FACTOR: f64 = 4.0;

/// Returns the prefixes of addresses, which are in their order, and what all connections to
/// those in each got. Every address is in one of them.
pub fn grouped(all: &[(&IpAddr, &Totals)], kernel: KernelBuffers) -> Vec<(IpNet, Totals)> {
    // All of IPv4 come before the others.
    let v4 = all.partition_point(|(remote, _)| remote.is_ipv4());
    let mut groups = Vec::new();
    split(&all[..v4], kernel, &mut groups);
    split(&all[v4..], kernel, &mut groups);
    groups
}

/// Makes one group of addresses, which are in their order, or two that are split further.
fn split(all: &[(&IpAddr, &Totals)], kernel: KernelBuffers, groups: &mut Vec<(IpNet, Totals)>) {
    let ([(first, _), ..], [.., (last, _)]) = (all, all) else { return };
    let prefix = common(**first, **last);
    if all.len() == 1 || prefix.prefix_len() >= shortest(**first) && are_alike(all, kernel) {
        let mut totals = Totals::default();
        all.iter().for_each(|(_, more)| totals.join(more));
        groups.push((prefix, totals));
        return;
    }
    let middle = all.partition_point(|(remote, _)| !has_bit(**remote, prefix.prefix_len()));
    split(&all[..middle], kernel, groups);
    split(&all[middle..], kernel, groups);
}

fn are_alike(all: &[(&IpAddr, &Totals)], kernel: KernelBuffers) -> bool {
    let Some((_, first)) = all.first() else { return true };
    let wanted = first.wants(kernel);
    if all.iter().any(|(_, it)| !it.wants(kernel).is_like(wanted)) {
        return false;
    }
    let bounds = |of: &dyn Fn(&Totals) -> Option<f64>| {
        let values = || all.iter().filter_map(|(_, it)| of(it));
        values().reduce(f64::min).zip(values().reduce(f64::max))
    };
    let rtts = bounds(&|it| it.rtt_seconds);
    let rates = bounds(&|it| Some(it.fastest_bytes_per_second()));
    // Where nothing helps, it is the same for all rates.
    rtts.is_none_or(|(least, most)| are_rtts_alike(least, most))
        && (!wanted.is_any() || rates.is_none_or(|(least, most)| are_rates_alike(least, most)))
}

/// Returns the length below which no prefix of this family is suggested.
#[must_use]
pub const fn shortest(address: IpAddr) -> u8 {
    if address.is_ipv4() { SHORTEST_V4 } else { SHORTEST_V6 }
}

/// Whether connections with these RTTs, the least first, may share a prefix.
#[must_use]
pub fn are_rtts_alike(least_seconds: f64, most_seconds: f64) -> bool {
    most_seconds <= least_seconds * RTT_FACTOR || most_seconds - least_seconds <= RTT_SECONDS
}

/// Whether connections with these rates, the least first, may share a prefix.
#[must_use]
pub fn are_rates_alike(least: f64, most: f64) -> bool {
    most <= least * RATE_FACTOR
}

/// Returns the longest prefix that has both, which are of one family.
#[must_use]
pub fn common(a: IpAddr, b: IpAddr) -> IpNet {
    let net = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let length = (a.to_bits() ^ b.to_bits()).leading_zeros() as u8;
            IpNet::V4(Ipv4Net::new_assert(a, length))
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let length = (a.to_bits() ^ b.to_bits()).leading_zeros() as u8;
            IpNet::V6(Ipv6Net::new_assert(a, length))
        }
        _ => unreachable!("the two kinds are split apart"),
    };
    net.trunc()
}

/// Whether an address has a one at this place, counted from the first bit.
fn has_bit(address: IpAddr, place: u8) -> bool {
    match address {
        IpAddr::V4(address) => address.to_bits() << place >> 31 == 1,
        IpAddr::V6(address) => address.to_bits() << place >> 127 == 1,
    }
}
