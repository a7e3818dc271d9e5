//! Has the kernel load the congestion controls that paths name: BPF programs
//! can only choose one that is there.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsString,
};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::TcpCongestion,
};
use wad_policy::config::{Congestion, Host, PathPolicy};

#[derive(Debug, thiserror::Error)]
#[error(
    "path {path}: the kernel neither has nor loads the congestion control {name}: load its module \
     (`modprobe tcp_{name}` says what is wrong), or change `congestion`"
)]
pub struct ModuleError {
    path: String,
    name: String,
    source: nix::Error,
}

/// Returns the first algorithm that the kernel has not, and does not load when it is
/// asked for it, with the reason. It is not asked for those that it refused before.
pub fn refused(paths: &[PathPolicy], host: &Host) -> Option<(String, String)> {
    kernels(paths).find_map(|(_, name)| {
        let is_settled = host.congestion_controls.contains(name) || host.refused.contains_key(name);
        let why = (!is_settled).then(|| choose(name).err()).flatten()?;
        Some((name.clone(), why.desc().to_owned()))
    })
}

/// The algorithms of the kernel's that paths give to flows, each once, with the first path
/// that does.
fn kernels(paths: &[PathPolicy]) -> impl Iterator<Item = (&PathPolicy, &String)> {
    let mut known = HashSet::new();
    paths.iter().filter(|path| !path.observe).filter_map(move |path| match &path.congestion {
        Some(Congestion::Kernel(name)) if known.insert(name) => Some((path, name)),
        _ => None,
    })
}

/// Returns the modules that the kernel would load for these paths.
pub fn missing(paths: &[PathPolicy], host: &Host) -> Vec<String> {
    let missing = kernels(paths).filter(|(_, name)| !host.congestion_controls.contains(name));
    let names: BTreeSet<_> = missing.map(|(_, name)| format!("tcp_{name}")).collect();
    names.into_iter().collect()
}

/// Asks for each once. The kernel then runs `modprobe tcp_NAME` by itself, as for
/// any process with CAP_NET_ADMIN (`tcp_ca_find_autoload()`), in its own
/// namespaces.
pub fn load(paths: &[PathPolicy]) -> Result<(), ModuleError> {
    for (path, name) in kernels(paths) {
        choose(name).map_err(|source| ModuleError {
            path: path.name.clone(),
            name: name.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Chooses an algorithm on a socket that is of no other use.
fn choose(name: &str) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let tcp = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    setsockopt(&tcp, TcpCongestion, &OsString::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(congestion: Congestion) -> PathPolicy {
        PathPolicy { name: "bob".to_owned(), congestion: Some(congestion), ..PathPolicy::default() }
    }

    /// Every kernel with TCP has `reno`, and lets anyone choose it.
    #[test]
    fn what_the_kernel_has_is_no_error() {
        let kernel = |name: &str| path(Congestion::Kernel(name.to_owned()));
        load(&[kernel("reno"), path(Congestion::Ours(wad_policy::law::Law::Aimd))]).unwrap();
    }

    #[test]
    fn what_it_refuses_is_told_once() {
        let paths = [path(Congestion::Kernel("no_such".to_owned()))];
        let mut host = Host::default();
        let (name, why) = refused(&paths, &host).expect("no kernel has it");
        assert!(name == "no_such" && !why.is_empty(), "{name}: {why}");
        host.refused.insert(name, why);
        assert_eq!(refused(&paths, &host), None);
        let observed = paths.map(|path| PathPolicy { observe: true, ..path });
        assert_eq!(refused(&observed, &Host::default()), None);
    }

    #[test]
    fn what_it_has_not_is_named_with_its_path() {
        let error = load(&[path(Congestion::Kernel("no_such".to_owned()))]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("path bob") && text.contains("modprobe tcp_no_such"), "{text}");
        assert!(matches!(error.source, nix::Error::ENOENT | nix::Error::EPERM), "{error:?}");
    }
}
