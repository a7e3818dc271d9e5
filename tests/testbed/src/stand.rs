//! A stand is what every end-to-end test stands on: the host's settings known, and a
//! cgroup of its own that this process, with all that it starts, is in.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use crate::{
    cgroup::{Cgroup, CgroupError, Joined},
    settings::HostDefaults,
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
}

/// A stand is undone when dropped, which has to be after all that stands on it: it is a
/// test's first variable.
#[derive(Debug)]
pub struct Stand {
    // Dropped in this order: the cgroup's end would be that of its members.
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
        Ok(Self { _joined: joined, cgroup, _host: host })
    }

    /// Returns the cgroup for agents.
    #[must_use]
    pub const fn cgroup(&self) -> &Cgroup {
        &self.cgroup
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
