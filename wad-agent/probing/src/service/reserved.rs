//! The locks that a peer's run takes here: what it takes of the other end, which this is.

use wad_policy::config::{Resource, ResourceLocks};

use crate::{schedule::Lock, task::Task};

/// Returns the locks of this host that a peer's run takes, each with what the peer calls it.
///
/// Which interface its packets go by is up to routes, so it takes all of them; its path is that
/// of the tasks that name the peer. As the other end this host is one for all peers: of two that
/// want it for themselves, one waits.
pub fn locks<'t>(
    peer: &str,
    wanted: ResourceLocks,
    tasks: impl Iterator<Item = &'t Task>,
) -> Vec<(Resource, Lock)> {
    let mut names: Vec<(Resource, String)> = vec![
        (Resource::HostCpu, Resource::HostCpu.word().to_owned()),
        (Resource::Interface, Resource::Interface.word().to_owned()),
        (Resource::Peer, Resource::Peer.word().to_owned()),
    ];
    for task in tasks {
        let is_with = task.config.peer.as_deref() == Some(peer);
        let resources: &[Resource] = match is_with {
            true => &[Resource::Interface, Resource::Path, Resource::Peer],
            false => &[Resource::Interface],
        };
        names.extend(resources.iter().map(|resource| (*resource, task.lock_name(*resource))));
    }
    names.sort();
    names.dedup();
    let lock = |(resource, name)| Some((resource, Lock::of(name, wanted.get(resource))?));
    names.into_iter().filter_map(lock).collect()
}

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, Hold, Host};

    use super::*;

    #[test]
    fn a_peers_run_takes_what_own_runs_with_it_take_and_all_interfaces() {
        let text = "
            [peers]
            certificate = '/c'
            key = '/k'
            ca = '/ca'
            [[peer]]
            name = 'tokyo'
            address = '192.0.2.7'
            identity = 'wad://tokyo'
            [[probe.task]]
            name = 'with'
            host = '192.0.2.7'
            tool = 'bandwidth'
            every = '1h'
            peer = 'tokyo'
            interface = 'eth1'
            [[probe.task]]
            name = 'without'
            host = '198.51.100.1'
            tool = 'rtt'
            every = '1h'
            interface = 'eth2'";
        let config = Config::parse("wad.toml", text, &Host::default()).unwrap();
        let tasks: Vec<_> = config.probe.unwrap().tasks.into_iter().map(Task::new).collect();
        let taken = |peer| {
            let [mut alone, mut shared] = [Vec::new(), Vec::new()];
            for (_, Lock { name, is_exclusive }) in
                locks(peer, ResourceLocks::FILLING, tasks.iter())
            {
                if is_exclusive { alone.push(name) } else { shared.push(name) }
            }
            (alone, shared)
        };
        let (alone, shared) = taken("tokyo");
        assert_eq!(shared, ["host-cpu"]);
        let interfaces = ["interface", "interface:eth1", "interface:eth2"];
        let others = ["path:192.0.2.7", "peer", "peer:192.0.2.7"];
        assert_eq!(alone, [&interfaces[..], &others].concat());
        assert_eq!(taken("osaka").0, [&interfaces[..], &["peer"]].concat());
        let nothing = ResourceLocks([Hold::None; 4]);
        assert!(locks("tokyo", nothing, tasks.iter()).is_empty());
    }
}
