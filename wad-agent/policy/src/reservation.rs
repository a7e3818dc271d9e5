//! A reservation keeps locks at another host for one run of a probe here, so that both ends
//! keep the same time free. These are the words that the two ends have for it: a run is
//! offered, committed to, and released.
//!
//! There are lengths of time in it and no times: clocks of hosts differ.

use std::time::Duration;

use crate::config::{LONGEST_RESERVED_RUN, Resource, ResourceLocks};

/// An answer that takes longer counts for none.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Locks are kept for no longer, from when a run is committed to.
pub const LONGEST: Duration = LONGEST_RESERVED_RUN.saturating_add(ANSWERS_WITHIN);

/// A question is what one end asks the other about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The asker's number of the run, which it gives to no other.
    pub run: u64,
    pub wish: Wish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// May there be a run, which takes these there, and lasts so long from when it is committed
    /// to?
    Offer { lasts: Duration, locks: ResourceLocks },
    /// There is going to be one.
    Commit,
    /// It is over, or there will be none.
    Release,
}

/// A reply is what the other end answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The locks are kept, or given back.
    Granted,
    /// A lock is held there, or kept for another run: by its task, or None where that is a run of
    /// another host.
    Held { lock: Resource, holder: Option<String> },
    /// The offer is not known, or not any more.
    Unknown,
    /// Nobody keeps locks there.
    NoService,
}
