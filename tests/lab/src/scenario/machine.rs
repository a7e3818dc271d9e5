//! Some experiments are for machines of so much memory, or for older kernels: virtual ones,
//! made for them.

use std::{fs, io};

use serde::Deserialize;
use wad_testbed::kernel;

use super::{Scenario, ScenarioError};

/// The kernel keeps a part of the memory for itself before it counts it.
const LEAST_SEEN: f64 = 0.75;
const GIB_BYTES: f64 = 1_073_741_824.0;

/// A machine, as far as experiments are for one or another.
#[derive(Clone, Debug)]
pub struct Machine {
    memory_bytes: u64,
    /// The kernel's release, as `uname -r` prints it.
    release: String,
}

impl Machine {
    /// Returns the machine that this runs on.
    ///
    /// # Errors
    /// When its kernel does not tell.
    pub fn this() -> io::Result<Self> {
        let memory_bytes = total(&fs::read_to_string("/proc/meminfo")?);
        let memory_bytes = memory_bytes.ok_or(io::ErrorKind::InvalidData)?;
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
        Ok(Self { memory_bytes, release })
    }

    fn memory_gib(&self) -> f64 {
        self.memory_bytes as f64 / GIB_BYTES
    }
}

/// A kernel's version: its first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Version(u32, u32);

impl Version {
    /// Reads what a release begins with, whatever follows the two numbers.
    fn read(text: &str) -> Option<Self> {
        let (major, minor) = kernel::version(text)?;
        Some(Self(major, minor))
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refused = format!("\"{text}\" is no version: write one such as \"6.17\"");
        Self::read(&text).ok_or(refused)
    }
}

impl Scenario {
    /// Keeps only what is for this machine, or for any.
    ///
    /// # Errors
    /// When nothing is.
    pub fn for_machine(mut self, machine: &Machine) -> Result<Self, ScenarioError> {
        let version = Version::read(&machine.release);
        if let Some(before) = self.before.filter(|before| version.is_none_or(|it| it >= *before)) {
            let wanted = format!("kernels before {}.{}", before.0, before.1);
            return Err(self.for_other(wanted, machine.release.clone()));
        }
        let mut sizes: Vec<_> =
            self.variants.iter().filter_map(|variant| variant.memory_gib).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let fits = |gib: u32| (LEAST_SEEN..=1.0).contains(&(machine.memory_gib() / f64::from(gib)));
        self.variants.retain(|variant| variant.memory_gib.is_none_or(fits));
        if self.variants.is_empty() {
            let sizes: Vec<_> = sizes.iter().map(|gib| format!("{gib} GiB")).collect();
            let wanted = format!("machines of {} of memory", sizes.join(" or "));
            return Err(self.for_other(wanted, format!("{:.1} GiB", machine.memory_gib())));
        }
        Ok(self)
    }

    fn for_other(self, wanted: String, seen: String) -> ScenarioError {
        ScenarioError::OtherMachine { scenario: self.name, wanted, seen }
    }
}

/// Reads proc_meminfo(5), whose kB are KiB.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(memory_mib: u64, release: &str) -> Machine {
        Machine { memory_bytes: memory_mib << 20, release: release.to_owned() }
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(total("MemTotal:        2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(Machine::this().is_ok_and(|this| this.memory_bytes > 1 << 20));
    }

    #[test]
    fn a_machine_gets_what_is_for_it() {
        let names = |memory_mib| -> Vec<String> {
            let scenario = Scenario::load("small-host").unwrap();
            let scenario = scenario.for_machine(&machine(memory_mib, "6.12.57")).unwrap();
            scenario.variants.into_iter().map(|variant| variant.name).collect()
        };
        let one = names(980);
        assert!(one.contains(&"plan-1GiB".to_owned()), "{one:?}");
        assert!(one.iter().all(|name| name.ends_with("-1GiB")), "{one:?}");
        assert!(names(3900).iter().all(|name| name.ends_with("-4GiB")));
        // What states nothing is for all.
        let any = Scenario::load("datatag").unwrap();
        assert!(any.for_machine(&machine(24 << 10, "7.2-rc1")).is_ok());
    }

    #[test]
    fn another_machine_is_told_which_one_it_takes() {
        let refusal = |name: &str, machine: &Machine| {
            Scenario::load(name).unwrap().for_machine(machine).unwrap_err().to_string()
        };
        let said = refusal("small-host", &machine(24 << 10, "6.12.57"));
        assert!(said.contains("1 GiB or 4 GiB") && said.contains("has 24.0 GiB"), "{said}");
        assert!(said.contains("cargo xtask vm lab small-host"), "{said}");
        let said = refusal("reordering", &machine(4096, "6.17.0-1"));
        assert!(said.contains("before 6.17") && said.contains("6.17.0-1"), "{said}");
        let old = machine(4096, "6.12.57+deb13-cloud-amd64");
        assert!(Scenario::load("reordering").unwrap().for_machine(&old).is_ok());
    }

    #[test]
    fn versions_are_two_numbers() {
        assert!(Version::read("6.12.57+deb13") < Version::read("6.17"));
        assert!(Version::read("7.2-rc1") > Version::read("6.17.3"));
        assert_eq!(Version::read("a new kind"), None);
    }
}
