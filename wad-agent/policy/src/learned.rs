//! A learned path is for connections that no path of the file is for, and that buffers held
//! back. It has buffers, and nothing else.

use std::collections::HashMap;

use ipnet::IpNet;
use wad_common::policy::MAX_PATHS;

use crate::{
    capacity::Capacity,
    config::{
        AutoBuffers, AutoTraits, HostChanges, Mapped, MeasuredPath, Origin, PathPolicy, Unfit,
        Windows, fit,
    },
    tuning_plan::{self, Bounds},
};

/// The names of learned paths begin so.
pub const NAME_PREFIX: &str = "learned-";

/// A learned path's buffers are for what its connections got, and room above that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnedPath {
    pub remote: IpNet,
    pub bits_per_second: f64,
    pub rtt_seconds: f64,
    /// Which buffers it has; never those that the kernel sizes.
    pub buffers: AutoBuffers,
}

impl LearnedPath {
    #[must_use]
    pub fn name(&self) -> String {
        name(self.remote)
    }

    #[must_use]
    pub const fn capacity(&self) -> Capacity {
        Capacity {
            bits_per_second: Some(self.bits_per_second),
            rtt_seconds: Some(self.rtt_seconds),
            is_least: true,
        }
    }

    /// Returns the bandwidth-delay product that its buffers are for.
    #[must_use]
    pub const fn bdp_bytes(&self) -> f64 {
        self.bits_per_second / 8.0 * self.rtt_seconds
    }

    /// Returns its policy: that of a measured path with buffers `"auto"`, whose flows got so
    /// much.
    #[must_use]
    pub fn policy(&self, bounds: Bounds) -> PathPolicy {
        let measured = MeasuredPath {
            fallback: Capacity::default(),
            buffers: self.buffers,
            windows: Windows::default(),
            aimd_is_auto: false,
            pacing_is_auto: false,
            traits: AutoTraits::default(),
            streams: 1,
            band: 1,
        };
        let path = PathPolicy {
            name: self.name(),
            remote: vec![self.remote],
            origin: Origin { buffers: self.buffers, ..Origin::default() },
            measured: Some(measured),
            ..PathPolicy::default()
        };
        let policy = tuning_plan::policy(&path, self.capacity(), bounds);
        // It is learned again from what its connections show, and from no source.
        PathPolicy { measured: None, ..policy }
    }
}

/// Returns the name of the path that is learned for a prefix.
#[must_use]
pub fn name(remote: IpNet) -> String {
    format!("{NAME_PREFIX}{remote}")
}

/// A prefix for which nothing is learned, as a path of the file is for all of it, or has the
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    pub remote: IpNet,
    /// The prefix of the path that is around it; itself where the path has its name.
    pub by: IpNet,
    pub path: String,
}

/// Returns which of these prefixes are within those of paths of the file.
#[must_use]
pub fn covered(remotes: &[IpNet], paths: &[PathPolicy]) -> Vec<Covered> {
    let mut sorted: Vec<_> = remotes.iter().map(|&remote| (Mapped::from(remote), remote)).collect();
    sorted.sort_unstable();
    let names: HashMap<String, IpNet> = remotes.iter().map(|&it| (name(it), it)).collect();
    let mut by: HashMap<IpNet, (IpNet, &str)> = HashMap::new();
    for path in paths {
        if let Some(remote) = names.get(&path.name) {
            by.entry(*remote).or_insert((*remote, &path.name));
        }
        for &net in &path.remote {
            let outer = Mapped::from(net);
            let first = sorted.partition_point(|(inner, _)| *inner < outer);
            let last_address = outer.address | !outer.mask();
            let within = sorted[first..].iter().take_while(|(it, _)| it.address <= last_address);
            for (_, remote) in within.filter(|(inner, _)| outer.contains(*inner)) {
                by.entry(*remote).or_insert((net, &path.name));
            }
        }
    }
    let one = |remote: &IpNet| {
        let &(by, path) = by.get(remote)?;
        Some(Covered { remote: *remote, by, path: path.to_owned() })
    };
    remotes.iter().filter_map(one).collect()
}

/// Adds learned paths to those of the file, but for those that a path of the file covers,
/// which are returned. Where all together do not fit, none is added.
pub fn add(
    learned: &[LearnedPath],
    (paths, host): (&mut Vec<PathPolicy>, &HostChanges),
    bounds: Bounds,
) -> Result<Vec<Covered>, Unfit> {
    let remotes: Vec<_> = learned.iter().map(|it| it.remote).collect();
    let covered = covered(&remotes, paths);
    let of_file = paths.len();
    let is_covered = |it: &&LearnedPath| covered.iter().any(|other| other.remote == it.remote);
    let added = learned.iter().filter(|it| !is_covered(it)).map(|it| it.policy(bounds));
    paths.extend(added.take((MAX_PATHS as usize).saturating_sub(of_file)));
    if paths.len() > of_file
        && let Err(unfit) = fit(paths, host)
    {
        paths.truncate(of_file);
        return Err(unfit);
    }
    Ok(covered)
}

#[cfg(test)]
mod tests {
    use wad_common::policy::RULES_PER_ADDRESS;

    use super::*;
    use crate::{
        config::{Config, testing::host},
        tuning_plan::KernelBuffers,
    };

    const KERNEL: KernelBuffers = KernelBuffers { sndbuf_bytes: 4 << 20, rcvbuf_bytes: 6 << 20 };

    fn bounds() -> Bounds {
        Bounds::new(None, 1 << 30, KERNEL)
    }

    fn learned(remote: &str) -> LearnedPath {
        LearnedPath {
            remote: remote.parse().unwrap(),
            bits_per_second: 1e9,
            rtt_seconds: 0.1,
            buffers: AutoBuffers { sndbuf: true, ..AutoBuffers::default() },
        }
    }

    fn paths(text: &str) -> Vec<PathPolicy> {
        Config::parse("wad.toml", text, &host()).unwrap_or_else(|error| panic!("{error}")).paths
    }

    fn path(name: &str, rest: &str) -> String {
        format!("[[path]]\nname = '{name}'\n{rest}\n")
    }

    #[test]
    fn it_has_the_buffers_of_a_path_that_is_written_so_and_nothing_else() {
        let policy = learned("203.0.113.0/24").policy(bounds());
        let written = path(
            "learned-203.0.113.0/24",
            "remote = '203.0.113.0/24'\nbandwidth = '1Gbit'\nrtt = '100ms'\nsndbuf = 'auto'",
        );
        let mut expected = paths(&written).remove(0);
        expected.origin.capacity.is_least = true;
        assert_eq!(policy, expected);
        assert_eq!(policy.sndbuf_bytes, Some(15_625_000));
    }

    #[test]
    fn it_keeps_to_the_bounds_and_undercuts_no_kernel() {
        let small = Bounds::new(Some(1 << 23), 1 << 30, KERNEL);
        assert_eq!(learned("::1/128").policy(small).sndbuf_bytes, Some(1 << 23));
        let near = LearnedPath { rtt_seconds: 1e-3, ..learned("203.0.113.0/24") };
        assert_eq!(near.policy(bounds()).sndbuf_bytes, None);
    }

    #[test]
    fn a_path_of_the_file_goes_before_what_is_learned_within_its_prefixes() {
        let file = path("a", "remote = ['10.0.0.0/8', '2001:db8::/32']\nremote_port = 443")
            + &path("b", "remote = '203.0.113.5'")
            + &path("learned-192.0.2.0/24", "remote = '198.51.100.1'");
        let file = paths(&file);
        let all = [
            "10.1.2.3/32",
            "2001:db8:5::/64",
            "203.0.113.0/24",
            "203.0.113.5/32",
            "192.0.2.0/24",
            "11.0.0.0/24",
            "2001:db9::/64",
        ];
        let remotes = all.map(|it| it.parse().unwrap());
        let found = covered(&remotes, &file);
        let found: Vec<_> =
            found.iter().map(|it| (it.remote.to_string(), it.path.as_str())).collect();
        let expected = [
            ("10.1.2.3/32", "a"),
            ("2001:db8:5::/64", "a"),
            ("203.0.113.5/32", "b"),
            ("192.0.2.0/24", "learned-192.0.2.0/24"),
        ];
        assert_eq!(found, expected.map(|(remote, path)| (remote.to_owned(), path)));

        let any = paths(&path("any", "remote = '::/0'"));
        assert_eq!(covered(&remotes, &any).len(), all.len());
    }

    #[test]
    fn those_that_are_not_covered_are_added_whole_or_not_at_all() {
        let mut file = paths(&path("b", "remote = '203.0.113.5'"));
        let own = file.clone();
        let both = [learned("203.0.113.5/32"), learned("203.0.113.0/24")];
        let left_out = add(&both, (&mut file, &HostChanges::default()), bounds()).unwrap();
        let remote = both[0].remote;
        assert_eq!(left_out, [Covered { remote, by: remote, path: "b".to_owned() }]);
        assert_eq!(file.len(), 2);
        assert_eq!((&file[0], file[1].name.as_str()), (&own[0], "learned-203.0.113.0/24"));

        let full = |port| {
            path(&format!("p{port}"), &format!("remote = '192.0.2.1'\nremote_port = {port}"))
        };
        let full: String = (1..=RULES_PER_ADDRESS).map(full).collect();
        let mut full = paths(&full);
        let own = full.clone();
        let around = [learned("192.0.2.0/24"), learned("203.0.113.0/24")];
        add(&around, (&mut full, &HostChanges::default()), bounds()).unwrap_err();
        assert_eq!(full, own);
    }
}
