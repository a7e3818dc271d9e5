//! The hosts that tasks name: mostly by name, where paths have addresses.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    net::IpAddr,
    time::Duration,
};

use tokio::{
    net::lookup_host,
    time::{Instant, timeout_at},
};
use wad_http::HttpError;

use crate::sources::{SourceError, Targets};

/// Addresses by name.
#[derive(Debug, Default)]
pub struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    /// Looks up names, all in so much time. What is not found is
    /// said.
    pub async fn look_up(
        names: BTreeSet<&str>,
        most: Duration,
        errors: &mut Vec<SourceError>,
    ) -> Self {
        let deadline = Instant::now() + most;
        let mut hosts = Self::default();
        for name in names.into_iter().filter(|name| name.parse::<IpAddr>().is_err()) {
            let late = |_| io::ErrorKind::TimedOut.into();
            let found = timeout_at(deadline, lookup_host((name, 0))).await;
            match found.map_err(late).flatten() {
                Ok(found) => {
                    hosts.0.insert(name.to_owned(), found.map(|address| address.ip()).collect());
                }
                Err(source) => {
                    errors.push(HttpError::Resolve { host: name.to_owned(), source }.into());
                }
            }
        }
        hosts
    }

    /// Returns the host's addresses; none if they could not be found.
    pub fn of(&self, host: &str) -> Vec<IpAddr> {
        let given = host.parse().map(|address| vec![address]).ok();
        given.or_else(|| self.0.get(host).cloned()).unwrap_or_default()
    }

    /// The paths that it is in.
    pub fn targets(&self, host: &str, targets: &Targets) -> Vec<usize> {
        let named = targets.named(host).map(|target| vec![target]);
        let around = || {
            let found = self.of(host).into_iter().flat_map(|at| targets.find(&at.to_string()));
            found.collect::<BTreeSet<_>>().into_iter().collect()
        };
        named.unwrap_or_else(around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::two_paths;

    #[test]
    fn a_host_is_in_the_paths_of_all_its_addresses() {
        let addresses = ["10.0.0.1", "2001:db8::1", "10.0.0.2", "192.0.2.1"];
        let addresses = addresses.map(|address| address.parse().unwrap()).to_vec();
        let hosts = Hosts(HashMap::from([("host.example".to_owned(), addresses)]));
        let targets = two_paths();
        assert_eq!(hosts.targets("host.example", &targets), [0, 1]);
        assert_eq!(hosts.targets("b", &targets), [1]);
        assert_eq!(hosts.targets("10.9.9.9", &targets), [0]);
        assert_eq!(hosts.targets("other.example", &targets), [0; 0]);
    }
}
