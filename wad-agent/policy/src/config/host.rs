//! Reads what a configuration has to fit on this host.

use std::{collections::BTreeMap, fs, path::Path};

use super::ConfigError;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Holds what the host offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Congestion controls that the kernel has loaded.
    pub congestion_controls: Vec<String>,
    /// Algorithms that it has as modules.
    pub loadable: Vec<String>,
    /// Algorithms that it was asked for and did not load, with the reason.
    pub refused: BTreeMap<String, String>,
    /// The users of `/etc/passwd`, with their numbers.
    pub users: BTreeMap<String, u32>,
    /// The groups of `/etc/group`, with their numbers.
    pub groups: BTreeMap<String, u32>,
}

impl Host {
    /// Asks the running kernel.
    pub fn read() -> Result<Self, ConfigError> {
        let read = |file| {
            fs::read_to_string(file)
                .map_err(|source| ConfigError::Host { file: Path::new(file).to_owned(), source })
        };
        let names = read(AVAILABLE)?;
        // Not every kernel has modules.
        let modules = Path::new("/lib/modules").join(read(RELEASE)?.trim()).join("modules.dep");
        let modules = fs::read_to_string(modules).unwrap_or_default();
        Ok(Self {
            congestion_controls: names.split_whitespace().map(str::to_owned).collect(),
            loadable: loadable(&modules),
            refused: BTreeMap::new(),
            // Not every host has one; then numbers do.
            users: fs::read_to_string(USERS).map(|text| numbers(&text)).unwrap_or_default(),
            groups: fs::read_to_string(GROUPS).map(|text| numbers(&text)).unwrap_or_default(),
        })
    }
}

/// Reads a passwd(5) or group(5): name and number are the first and the third field of a line.
pub fn numbers(passwd: &str) -> BTreeMap<String, u32> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        Some((name.to_owned(), fields.nth(1)?.parse().ok()?))
    };
    // Of equals, the first.
    passwd.lines().rev().filter_map(user).collect()
}

/// The congestion controls in a `modules.dep` (depmod(8)): module files, each
/// followed by a colon. The kernel looks for `tcp_NAME` (`tcp_ca_find_autoload()`).
pub fn loadable(modules: &str) -> Vec<String> {
    let names = modules.lines().filter_map(|line| {
        let (file, _) = line.split_once(':')?;
        let (_, name) = file.rsplit_once('/')?;
        let (name, compression) = name.strip_prefix("tcp_")?.split_once(".ko")?;
        let is_module = matches!(compression, "" | ".gz" | ".xz" | ".zst");
        // Named alike, but it is what `ss` asks.
        (is_module && name != "diag").then(|| name.to_owned())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::{loadable, numbers};

    #[test]
    fn users_are_read_with_their_numbers() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nglobus:x:993:993::/:\n:x:5\nbad:x:many:1\n\
                      short\n+nis::::::\nglobus:x:7:7::/:\n";
        let read: Vec<_> = numbers(passwd).into_iter().collect();
        assert_eq!(read, [("globus".to_owned(), 993), ("root".to_owned(), 0)]);
    }

    #[test]
    fn modules_are_known_by_their_files() {
        let modules = "\
kernel/net/ipv4/tcp_vegas.ko.xz: kernel/net/ipv4/tcp_other.ko.xz
kernel/net/ipv4/tcp_bbr.ko:
kernel/net/ipv4/tcp_diag.ko: kernel/net/ipv4/inet_diag.ko
kernel/net/ipv4/tcp_odd.kot:
kernel/drivers/infiniband/ulp/iser/ib_tcp_x.ko:
";
        assert_eq!(loadable(modules), ["bbr", "vegas"]);
        assert_eq!(loadable(""), [""; 0]);
    }
}
