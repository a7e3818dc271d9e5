//! Kernel settings by their dotted names, read and written through /proc/sys.
//! Values are text, as the kernel prints them, without the final newline.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The tree of settings: /proc/sys, or a folder that looks like it.
#[derive(Clone, Debug)]
pub struct Sysctl {
    root: PathBuf,
    /// Where those of the network are.
    root_of_net: PathBuf,
}

/// A container may not write to its /proc/sys; /proc/sys/net of the host is mounted below
/// this where it may change that.
const OF_HOST: &str = "/host/proc/sys";

#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    #[error("cannot read the kernel setting {key}{}", needs(key, &[]))]
    Read { key: String, source: io::Error },
    #[error("cannot set {key} to {value}{}", needs(key, &["root"]))]
    Write { key: String, value: String, source: io::Error },
    #[error("the kernel setting {key} is {value:?}, which does not end in a number")]
    NotANumber { key: String, value: String, source: std::num::ParseIntError },
}

impl SysctlError {
    fn writing(key: &str, value: &str, source: io::Error) -> Self {
        Self::Write { key: key.to_owned(), value: value.to_owned(), source }
    }

    /// Whether this process may read the setting, and not change it: /proc/sys is read-only in
    /// most containers.
    #[must_use]
    pub fn is_not_permitted(&self) -> bool {
        let Self::Write { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    }
}

/// Says what it takes to have a setting. (Linux 6.1 does not even show those of net.core
/// in other namespaces.)
fn needs(key: &str, others: &[&str]) -> String {
    let own = key.starts_with("net.core.").then_some("the host's own network namespace");
    let all: Vec<_> = others.iter().copied().chain(own).collect();
    if all.is_empty() { String::new() } else { format!(" (it takes {})", all.join(" and ")) }
}

impl Default for Sysctl {
    fn default() -> Self {
        let own = Self::at("/proc/sys");
        let of_host = Path::new(OF_HOST);
        if of_host.join("net").is_dir() { own.with_net_at(of_host) } else { own }
    }
}

impl Sysctl {
    #[must_use]
    pub fn at(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref().to_owned();
        Self { root_of_net: root.clone(), root }
    }

    /// Has `net` be in another folder.
    fn with_net_at(self, root: &Path) -> Self {
        Self { root_of_net: root.to_owned(), ..self }
    }

    pub fn read(&self, key: &str) -> Result<String, SysctlError> {
        match fs::read_to_string(self.file(key)) {
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(source) => Err(SysctlError::Read { key: key.to_owned(), source }),
        }
    }

    pub fn write(&self, key: &str, value: &str) -> Result<(), SysctlError> {
        // Not fs::write, which would create what does not exist.
        let write = || {
            let mut file =
                fs::OpenOptions::new().write(true).truncate(true).open(self.file(key))?;
            io::Write::write_all(&mut file, value.as_bytes())
        };
        write().map_err(|source| SysctlError::writing(key, value, source))
    }

    /// Checks that `key` may be set to this value, as far as that is known before it is.
    pub fn may_write(&self, key: &str, value: &str) -> Result<(), SysctlError> {
        match fs::OpenOptions::new().write(true).open(self.file(key)) {
            Ok(_) => Ok(()),
            Err(source) => Err(SysctlError::writing(key, value, source)),
        }
    }

    /// Empty where it cannot be read.
    pub fn host_name(&self) -> String {
        self.read("kernel.hostname").unwrap_or_default()
    }

    fn file(&self, key: &str) -> PathBuf {
        let root = if key.starts_with("net.") { &self.root_of_net } else { &self.root };
        root.join(key.replace('.', "/"))
    }
}

/// The last number of a setting's value, which most often is its only one.
pub fn last_number(key: &str, value: &str) -> Result<u64, SysctlError> {
    let last = value.split_whitespace().next_back().unwrap_or_default();
    last.parse().map_err(|source| {
        let (key, value) = (key.to_owned(), value.to_owned());
        SysctlError::NotANumber { key, value, source }
    })
}

/// A folder with a few settings in it, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use std::{fs, os::unix::fs::symlink};

    use super::Sysctl;

    pub const BOOT_ID: &str = "1c1f0b6e-5d1c-4f4e-9d56-0f4f3a1f0a01";

    pub fn tree(settings: &[(&str, &str)]) -> (tempfile::TempDir, Sysctl) {
        let root = tempfile::tempdir().unwrap();
        let sysctl = Sysctl::at(root.path());
        for (key, value) in settings.iter().chain(&[("kernel.random.boot_id", BOOT_ID)]) {
            let file = sysctl.file(key);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{value}\n")).unwrap();
        }
        (root, sysctl)
    }

    /// Has a setting be a number that nobody may change, not even root: 65536, how many groups
    /// a process may be in.
    pub fn make_read_only(sysctl: &Sysctl, key: &str) {
        let file = sysctl.file(key);
        fs::remove_file(&file).unwrap();
        symlink("/proc/sys/kernel/ngroups_max", file).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_without_the_newline_and_writes() {
        let (_root, sysctl) = testing::tree(&[("net.core.rmem_max", "212992")]);
        assert_eq!(sysctl.read("net.core.rmem_max").unwrap(), "212992");
        sysctl.write("net.core.rmem_max", "4194304").unwrap();
        assert_eq!(sysctl.read("net.core.rmem_max").unwrap(), "4194304");
    }

    #[test]
    fn what_is_not_there_is_named_and_not_created() {
        let (_root, sysctl) = testing::tree(&[]);
        assert!(sysctl.read("net.core.rmem_max").unwrap_err().to_string().contains("rmem_max"));
        let error = sysctl.write("kernel.nonsense", "1").unwrap_err();
        assert!(error.to_string().starts_with("cannot set kernel.nonsense to 1"));
        assert!(sysctl.read("kernel.nonsense").is_err());
    }

    #[test]
    fn what_may_not_be_changed_is_told_from_what_fails() {
        let (_root, sysctl) = testing::tree(&[("kernel.mine", "1"), ("kernel.theirs", "1")]);
        testing::make_read_only(&sysctl, "kernel.theirs");
        sysctl.may_write("kernel.mine", "2").unwrap();
        assert_eq!(sysctl.read("kernel.mine").unwrap(), "1");
        assert_eq!(sysctl.read("kernel.theirs").unwrap(), "65536");
        for set in [Sysctl::may_write, Sysctl::write] {
            let error = set(&sysctl, "kernel.theirs", "2").unwrap_err();
            assert!(error.is_not_permitted(), "{error:?}");
            assert!(!set(&sysctl, "kernel.nonsense", "2").unwrap_err().is_not_permitted());
        }
    }

    #[test]
    fn those_of_the_network_may_be_elsewhere() {
        let (_own, sysctl) = testing::tree(&[("net.core.rmem_max", "1"), ("kernel.a", "own")]);
        let (host, _) = testing::tree(&[("net.core.rmem_max", "2"), ("kernel.a", "host")]);
        let sysctl = sysctl.with_net_at(host.path());
        sysctl.write("net.core.rmem_max", "3").unwrap();
        assert_eq!(sysctl.read("net.core.rmem_max").unwrap(), "3");
        assert_eq!(sysctl.read("kernel.a").unwrap(), "own");
        let at_host = fs::read_to_string(host.path().join("net/core/rmem_max")).unwrap();
        assert_eq!(at_host, "3");
    }

    #[test]
    fn of_a_list_the_last_is_read() {
        assert_eq!(last_number("net.ipv4.tcp_rmem", "4096\t131072\t6291456").unwrap(), 6_291_456);
        assert_eq!(last_number("net.core.rmem_max", "212992").unwrap(), 212_992);
        for value in ["", "4096\tmany"] {
            let error = last_number("net.ipv4.tcp_rmem", value).unwrap_err();
            assert!(error.to_string().contains("net.ipv4.tcp_rmem"));
        }
    }

    #[test]
    fn the_running_kernel_has_a_boot_id() {
        assert_eq!(Sysctl::default().read("kernel.random.boot_id").unwrap().len(), 36);
    }
}
