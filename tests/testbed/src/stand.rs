//! A stand is what every end-to-end test stands on: the host's settings known, and a
//! cgroup of its own that this process, with all that it starts, is in. One that stands apart
//! has a network namespace of its own, too, whose settings it may change beside others.

use std::{
    fmt::Debug,
    fs::File,
    io,
    time::{Duration, Instant},
};

use nix::sched::{CloneFlags, setns};

use crate::{
    beside::Beside,
    cgroup::{Cgroup, CgroupError, Joined},
    netns::{Netns, NetnsError},
    process::ProcessError,
    settings::{HostDefaults, RaisedCeilings},
    signal::{self, Interrupted},
    sysctl::SysctlError,
};

/// Tells what kept a test from its stand.
#[derive(Debug, thiserror::Error)]
pub enum StandError {
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot handle signals")]
    Signals(#[from] nix::Error),
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot tell which network namespace this is")]
    Own { source: io::Error },
}

/// A stand is undone when dropped, which has to be after all that stands on it: it is a
/// test's first variable.
#[derive(Debug)]
pub struct Stand {
    // Dropped in this order: the host's settings are in its own namespace, and the cgroup's
    // end would be that of its members.
    _apart: Option<Apart>,
    _joined: Joined,
    cgroup: Cgroup,
    _host: HostDefaults,
}

impl Stand {
    /// # Errors
    /// Without root, or without cgroup v2.
    pub fn set_up(label: &str) -> Result<Self, StandError> {
        // A Ctrl-C ends this test and those after it, but undoes what they did.
        signal::catch()?;
        signal::check()?;
        let host = HostDefaults::set()?;
        let cgroup = Cgroup::create(label)?;
        let joined = Joined::to(&cgroup)?;
        Ok(Self { _apart: None, _joined: joined, cgroup, _host: host })
    }

    /// Sets it up apart: this thread, with all that it starts, is in a network namespace of
    /// its own from here on, until this is dropped.
    ///
    /// # Errors
    /// Without root, or without cgroup v2.
    pub fn apart(label: &str) -> Result<Self, StandError> {
        let stand = Self::set_up(label)?;
        Ok(Self { _apart: Some(Apart::go(label)?), ..stand })
    }

    /// Returns the cgroup for agents.
    #[must_use]
    pub const fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }
}

/// A thread in a network namespace of its own, which goes back when this is dropped.
#[derive(Debug)]
struct Apart {
    home: File,
    // Dropped after that, in this order.
    _own: Netns,
    _ceilings: Option<RaisedCeilings>,
}

impl Apart {
    fn go(label: &str) -> Result<Self, StandError> {
        // They are raised already where others run beside this.
        let alone = Beside::this().is_none();
        let ceilings = alone.then(RaisedCeilings::set).transpose()?;
        let home = File::open("/proc/thread-self/ns/net");
        let home = home.map_err(|source| StandError::Own { source })?;
        let own = Netns::create(label)?;
        own.ip(&["link", "set", "lo", "up"])?;
        own.enter()?;
        Ok(Self { home, _own: own, _ceilings: ceilings })
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Err(errno) = setns(&self.home, CloneFlags::CLONE_NEWNET) {
            crate::say(&format!("cannot go back to the host's network namespace: {errno}"));
        }
    }
}

/// Something awaited did not come.
#[derive(Debug, thiserror::Error)]
#[error("{what}: not so within {limit:?}; last seen: {seen}")]
pub struct Late {
    what: &'static str,
    limit: Duration,
    seen: String,
}

/// Looks until what is seen fits, and returns that.
///
/// # Errors
/// When it does not fit in time, or looking fails.
pub fn until<T: Debug, E: From<Late> + From<Interrupted>>(
    what: &'static str,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, E>,
    fits: impl Fn(&T) -> bool,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        let seen = look()?;
        if fits(&seen) {
            return Ok(seen);
        }
        if begun.elapsed() > limit {
            return Err(Late { what, limit, seen: format!("{seen:?}") }.into());
        }
        signal::sleep(Duration::from_millis(20))?;
    }
}
