//! Reads which resources of this host and of the network a task has for itself while it
//! runs.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use toml::de::DeValue;

use super::super::{
    fault::{Fault, Problems, quoted},
    table::{self, Table},
};

/// The longest run that a peer keeps locks for.
pub const LONGEST_RESERVED_RUN: Duration = Duration::from_secs(3_600);

/// A resource is what runs may be in each other's way at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// The processors of this host.
    HostCpu,
    /// The task's interface.
    Interface,
    /// The task's path, or its host where it names no path.
    Path,
    /// The other end.
    Peer,
}

/// Says how much of a resource a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It is in nobody's way.
    None,
    /// Others may share it.
    Shared,
    /// Nobody else has it meanwhile.
    Exclusive,
}

/// How much of each resource a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLocks(pub [Hold; 4]);

impl Resource {
    pub const ALL: [Self; 4] = [Self::HostCpu, Self::Interface, Self::Path, Self::Peer];

    /// Returns the word of the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::HostCpu => "host-cpu",
            Self::Interface => "interface",
            Self::Path => "path",
            Self::Peer => "peer",
        }
    }
}

impl Hold {
    pub const ALL: [Self; 3] = [Self::None, Self::Shared, Self::Exclusive];

    /// Returns the word of the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}

impl Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl ResourceLocks {
    /// A few packets disturb nobody, and are disturbed by those who want it all.
    pub const LIGHT: Self = Self([Hold::Shared; 4]);
    /// Whoever fills a path is alone on it, at its end, and on the way out.
    pub const FILLING: Self =
        Self([Hold::Shared, Hold::Exclusive, Hold::Exclusive, Hold::Exclusive]);

    pub const fn get(&self, resource: Resource) -> Hold {
        self.0[resource as usize]
    }
}

/// Reads what the file says instead of what the tool usually takes.
pub fn read(table: &Table<'_>, usual: ResourceLocks, problems: &mut Problems) -> ResourceLocks {
    let mut locks = usual;
    for (resource, hold) in table.read_map("locks", problems, read_one) {
        locks.0[resource as usize] = hold;
    }
    locks
}

fn read_one(name: &str, value: &DeValue<'_>) -> Result<(Resource, Hold), Fault> {
    let resource = Resource::ALL.into_iter().find(|resource| resource.word() == name);
    let resource = resource.ok_or_else(|| {
        let title = format!("{} is nothing that can be locked", quoted(name));
        Fault::new(title, "it takes host-cpu, interface, path and peer")
    })?;
    let word = table::text(value)?;
    let hold = Hold::ALL.into_iter().find(|hold| hold.word() == word).ok_or_else(|| {
        let title = format!("{} is no way to take a lock", quoted(word));
        Fault::new(title, "it takes \"none\", \"shared\" or \"exclusive\"")
    })?;
    Ok((resource, hold))
}
