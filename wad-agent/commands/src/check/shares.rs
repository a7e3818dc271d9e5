//! Shows which paths are aggressive, and by how much.

use std::fmt::{self, Display as _};

use wad_policy::{
    capacity::PACKET_BYTES,
    config::{Congestion, PathPolicy},
    kernel_algorithm::{self, KernelAlgorithm},
    shares::{Filling, LOSSES, ShareAt, Shares},
};
use wad_toolbox::text_table::TextTable;

use super::{SHOWN, write_more};

const LAST: usize = 2 + LOSSES.len();

/// Paths that are named in a line.
pub const NAMED: usize = 5;

/// Tells of those under an algorithm of the kernel's that yields to no losses, of each with
/// so many names.
pub fn modelled(paths: &[PathPolicy], named: usize) -> Vec<String> {
    let told = |modelled: &KernelAlgorithm| {
        let left_to_cubic = modelled.left_to_cubic?;
        let has_it = |path: &&PathPolicy| {
            !path.observe && path.congestion.as_ref().is_some_and(|it| it.name() == modelled.name)
        };
        let names: Vec<_> = paths.iter().filter(has_it).map(|path| path.name.as_str()).collect();
        if names.is_empty() {
            return None;
        }
        let s = if names.len() == 1 { "" } else { "s" };
        let first: Vec<_> = names.iter().take(named).copied().collect();
        let more = match names.len().saturating_sub(named) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "path{s} {}{more}: {} left a cubic flow {} of its fair share in the lab\n    \
             (scenario shared: 200 Mbit/s, 20 and 120 ms, queues of 0.1 to 1 times bandwidth \
             times RTT)",
            first.join(", "),
            modelled.name,
            left_to_cubic
        ))
    };
    kernel_algorithm::ALL.iter().filter_map(told).collect()
}

/// Shows all those that take more than a CUBIC flow's share.
pub fn write(f: &mut fmt::Formatter<'_>, paths: &[PathPolicy]) -> fmt::Result {
    let aggressive: Vec<_> = paths
        .iter()
        .filter_map(|path| Some((path, path.shares().filter(Shares::exceed_fair)?)))
        .collect();
    if aggressive.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "Rate over that of a CUBIC flow (RFC 9438), at the same losses and RTT, in packets of\n\
         {PACKET_BYTES} bytes:"
    )?;
    let rows = aggressive.iter().take(SHOWN).map(|(path, shares)| row(path, shares));
    let losses = LOSSES.map(|loss| format!("{loss:e}"));
    let head: [&str; LAST + 1] = std::array::from_fn(|n| match n {
        0 => "PATH",
        1 => "LAW",
        LAST => "FILLING THE PATH",
        loss => &losses[loss - 2],
    });
    TextTable::new(head).with_rows(rows).fmt(f)?;
    write_more(f, aggressive.len())?;
    if aggressive.iter().any(|(_, shares)| !shares.is_rtt_known) {
        writeln!(f, "(*) no `rtt` is given: over the least that CUBIC takes at any")?;
    }
    writeln!(f)
}

fn row(path: &PathPolicy, shares: &Shares) -> [String; LAST + 1] {
    std::array::from_fn(|n| match n {
        0 if shares.is_rtt_known => path.name.clone(),
        0 => format!("{} (*)", path.name),
        1 => path.congestion.as_ref().map_or("-", Congestion::name).to_owned(),
        LAST => match shares.filling {
            Filling::Unknown => "-".to_owned(),
            Filling::At(ShareAt { loss, share }) => format!("{} at {loss:.1e}", rounded(share)),
            Filling::Always => "at any loss".to_owned(),
        },
        loss => shares.at[loss - 2].map_or_else(|| "-".to_owned(), rounded),
    })
}

/// A share in the two or three digits that mean something.
pub fn rounded(share: f64) -> String {
    if share.is_infinite() {
        "all".to_owned()
    } else if share < 10.0 {
        format!("{share:.2}")
    } else {
        format!("{share:.1}")
    }
}
