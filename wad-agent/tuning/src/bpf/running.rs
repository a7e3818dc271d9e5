//! Flows that run already: found by an iterator over the sockets of each network
//! namespace, brought under the policy that is in force, and let go where none is.

use std::{
    io,
    ops::ControlFlow,
    os::fd::{AsFd as _, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use tracing::{info, warn};
use wad_common::flow::Visit;
use wad_linux::netns::{self, Skipped, Which};

use super::{
    Result, TuningError,
    iterators::{self, and_go_on},
    programs::{self, Loader},
};

/// How often a namespace is gone through at most: before Linux 6.17 a pass may
/// miss sockets if others come and go meanwhile.
const PASSES: usize = 8;

/// The iterator, ready to be run.
pub struct Running {
    link: OwnedFd,
}

/// Says what a pass over flows that run has come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct BroughtAlong {
    /// Network namespaces that it has left out.
    pub skipped: Skipped,
    /// Flows that came under a path, or under another one.
    pub adopted: usize,
}

/// Says what came of going through all namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    adopted: usize,
    changed: usize,
    left: usize,
    divided: usize,
}

impl Passed {
    fn of(output: &[u8]) -> Self {
        let count = |visit: Visit| output.iter().filter(|byte| **byte == visit as u8).count();
        Self {
            adopted: count(Visit::Adopted),
            changed: count(Visit::Changed),
            left: count(Visit::Left),
            divided: count(Visit::Divided),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            adopted: self.adopted + other.adopted,
            changed: self.changed + other.changed,
            left: self.left + other.left,
            divided: self.divided + other.divided,
        }
    }

    /// Whether another pass at once could do no more.
    const fn is_done(self) -> bool {
        self.adopted + self.changed + self.left + self.divided == 0
    }
}

impl Running {
    /// Loads the iterator.
    pub fn load(loader: Loader<'_>) -> Result<Self> {
        Ok(Self { link: iterators::link(&loader.load(&programs::RUNNING)?)? })
    }

    /// Goes through these network namespaces until nothing is left to be done, or it is to
    /// stop.
    pub fn bring_along(&self, which: Which<'_>, stop: &AtomicBool) -> Result<BroughtAlong> {
        let mut outcome = Passed::default();
        let mut result = Ok(());
        let visit = || {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            and_go_on(self.until_done().map(|done| outcome = outcome.and(done)), &mut result)
        };
        let skipped = netns::in_each(which, visit).map_err(TuningError::Namespaces)?;
        result.map_err(TuningError::Running)?;
        if skipped.closed > 0 {
            warn!(
                namespaces = skipped.closed,
                "flows that run in other network namespaces stay as they are: to enter them takes \
                 CAP_SYS_ADMIN"
            );
        }
        let Passed { adopted, changed, left, .. } = outcome;
        if adopted + changed + left > 0 {
            info!(adopted, changed, left, "running flows follow the policy");
        }
        Ok(BroughtAlong { skipped, adopted })
    }

    fn until_done(&self) -> io::Result<Passed> {
        let mut outcome = Passed::default();
        for _ in 0..PASSES {
            let done = self.pass()?;
            outcome = outcome.and(done);
            if done.is_done() {
                break;
            }
        }
        Ok(outcome)
    }

    /// Makes one run in the calling thread's namespace.
    fn pass(&self) -> io::Result<Passed> {
        let mut output = Vec::new();
        iterators::read_sockets(self.link.as_fd(), &mut output)?;
        Ok(Passed::of(&output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_read_from_the_output() {
        let outcome = Passed::of(b"aaclad");
        let expected = Passed { adopted: 3, changed: 1, left: 1, divided: 1 };
        assert_eq!(outcome, expected);
        assert!(!outcome.is_done() && Passed::of(b"").is_done());
        assert_eq!(outcome.and(outcome).adopted, 6);
    }
}
