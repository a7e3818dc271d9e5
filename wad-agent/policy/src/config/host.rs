//! Reads what a configuration has to fit on this host.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::ConfigError;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// Only a kernel that can have modules has it (kernel/module/main.c).
const MODPROBE: &str = "/proc/sys/kernel/modprobe";

/// Holds what the host offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Congestion controls that the kernel has loaded.
    pub congestion_controls: Vec<String>,
    pub loadable: Loadable,
    /// Algorithms that it was asked for and did not load, with the reason.
    pub refused: BTreeMap<String, String>,
    /// The users of `/etc/passwd`, with their numbers.
    pub users: BTreeMap<String, u32>,
    /// The groups of `/etc/group`, with their numbers.
    pub groups: BTreeMap<String, u32>,
}

/// Holds the algorithms that the kernel has as modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loadable {
    Known(Vec<String>),
    /// Its list of modules cannot be read, for this reason, as in a container. The kernel
    /// reads another one, the host's: it has to be asked for an algorithm itself.
    Unknown(String),
}

impl Default for Loadable {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

impl Loadable {
    /// Reads the list of modules in a file; a kernel without modules needs none.
    fn read(file: &Path, can_have_modules: bool) -> Self {
        match fs::read_to_string(file) {
            Ok(modules) => Self::Known(loadable(&modules)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !can_have_modules => {
                Self::default()
            }
            Err(error) => Self::Unknown(format!("cannot read {}: {error}", file.display())),
        }
    }

    /// Tells whether the kernel may load an algorithm when it is asked for it.
    pub fn may_have(&self, name: &str) -> bool {
        match self {
            Self::Known(names) => names.iter().any(|known| known == name),
            Self::Unknown(_) => true,
        }
    }
}

impl Host {
    /// Asks the running kernel.
    pub fn read() -> Result<Self, ConfigError> {
        let read = |file| {
            fs::read_to_string(file)
                .map_err(|source| ConfigError::Host { file: Path::new(file).to_owned(), source })
        };
        let names = read(AVAILABLE)?;
        let modules = Path::new("/lib/modules").join(read(RELEASE)?.trim()).join("modules.dep");
        Ok(Self {
            congestion_controls: names.split_whitespace().map(str::to_owned).collect(),
            loadable: Loadable::read(&modules, Path::new(MODPROBE).exists()),
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
    use super::*;

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

    #[test]
    fn a_list_that_cannot_be_read_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("modules.dep");
        let read = |can_have_modules| Loadable::read(&file, can_have_modules);
        let unknown = read(true);
        assert!(unknown.may_have("bbr"));
        let Loadable::Unknown(why) = unknown else { panic!("{unknown:?}") };
        assert!(why.starts_with("cannot read /") && why.contains("modules.dep: No such"), "{why}");
        assert_eq!(read(false), Loadable::Known(Vec::new()));

        fs::write(&file, "kernel/net/ipv4/tcp_bbr.ko:\n").unwrap();
        let known = read(true);
        assert!(known.may_have("bbr") && !known.may_have("vegas"), "{known:?}");

        // There, and not to be read.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(matches!(read(false), Loadable::Unknown(_)));
    }
}
