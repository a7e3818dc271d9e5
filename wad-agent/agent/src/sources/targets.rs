//! A label of a source's series means a measured path: by its name, or by an address
//! or prefix in its `remote`.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ipnet::IpNet;
use wad_policy::{
    config::{Mapped, MeasuredPath, Metric, PathPolicy},
    tuning_plan::Expected,
};

/// The measured paths.
#[derive(Debug, Default)]
pub struct Targets {
    names: Vec<Arc<str>>,
    /// The file says this of each.
    measured: Vec<MeasuredPath>,
    by_name: HashMap<Arc<str>, usize>,
    /// Paths that share a prefix differ in their ports: it is one path of the
    /// network.
    by_prefix: HashMap<(u128, u8), Vec<usize>>,
    lengths: BTreeSet<u8>,
}

impl Targets {
    pub fn new(paths: &[PathPolicy]) -> Self {
        let mut targets = Self::default();
        let measured = paths.iter().filter_map(|path| Some((path, path.measured?)));
        for (path, measured) in measured {
            targets.measured.push(measured);
            let target = targets.names.len();
            let name: Arc<str> = path.name.as_str().into();
            targets.by_name.insert(Arc::clone(&name), target);
            targets.names.push(name);
            for &net in &path.remote {
                let prefix = Mapped::from(net);
                targets.lengths.insert(prefix.bits);
                targets.by_prefix.entry((prefix.address, prefix.bits)).or_default().push(target);
            }
        }
        targets
    }

    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Returns what the file says of a metric of a path.
    pub fn expected(&self, target: usize, metric: Metric) -> Expected {
        let MeasuredPath { fallback, band, .. } = self.measured[target];
        let own = match metric {
            Metric::Bandwidth => fallback.bits_per_second,
            Metric::Rtt => fallback.rtt_seconds,
            Metric::Loss | Metric::Reordering => None,
        };
        Expected { own, band: band.into() }
    }

    /// The path of this very name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the targets that a label means; none, or more than one.
    pub fn find(&self, label: &str) -> Vec<usize> {
        if let Some(&target) = self.by_name.get(label) {
            return vec![target];
        }
        address(label).map_or_else(Vec::new, |net| self.around(net))
    }

    /// The paths of the longest prefix around it.
    fn around(&self, net: IpNet) -> Vec<usize> {
        let inner = Mapped::from(net);
        let lengths = self.lengths.range(..=inner.bits).rev();
        let prefixes = lengths.map(|&bits| {
            let mask = Mapped { address: 0, bits }.mask();
            (inner.address & mask, bits)
        });
        prefixes
            .into_iter()
            .find_map(|prefix| self.by_prefix.get(&prefix))
            .cloned()
            .unwrap_or_default()
    }
}

/// Reads an address as `192.0.2.1`, `192.0.2.1:9115`, `[2001:db8::1]:9115`,
/// `192.0.2.0/24`.
fn address(label: &str) -> Option<IpNet> {
    let address: Option<IpAddr> = label.parse().ok();
    let with_port = || label.parse().map(|address: SocketAddr| address.ip()).ok();
    match address.or_else(with_port) {
        Some(address) => Some(address.into()),
        None => label.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, testing::host};

    use super::*;

    fn targets() -> Targets {
        let path = |name, keys| {
            format!("[[path]]\nname = '{name}'\nmode = 'measured'\nsndbuf = 'auto'\n{keys}\n")
        };
        let text = [
            "[[source]]\nname = 's'\nkind = 'prometheus'\nurl = 'http://a'\nrtt = 'x'\n".to_owned(),
            path("wide", "remote = ['10.0.0.0/8', '2001:db8::/32']"),
            path("a", "remote = '10.5.0.0/16'\nremote_port = 80"),
            path("b", "remote = '10.5.0.0/16'\nremote_port = 81"),
            "[[path]]\nname = 'static'\nremote = '192.0.2.1'\nsndbuf = '1MiB'\n".to_owned(),
        ];
        let config = Config::parse("wad.toml", &text.concat(), &host());
        Targets::new(&config.unwrap_or_else(|error| panic!("{error}")).paths)
    }

    #[test]
    fn a_label_is_a_name_or_an_address() {
        let targets = targets();
        for (label, expected) in [
            ("wide", vec![0]),
            ("b", vec![2]),
            ("10.1.1.1", vec![0]),
            ("10.1.1.1:9115", vec![0]),
            ("[2001:db8::1]:443", vec![0]),
            ("2001:db8::1", vec![0]),
            ("::ffff:10.1.1.1", vec![0]),
            ("10.5.1.1", vec![1, 2]),
            ("10.5.0.0/16", vec![1, 2]),
            ("10.5.0.0/24", vec![1, 2]),
            ("10.4.0.0/15", vec![0]),
            ("192.0.2.1", vec![]),
            ("static", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(targets.find(label), expected, "{label}");
        }
    }
}
