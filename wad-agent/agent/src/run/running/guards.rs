//! Somebody ends by hand what a path's guard does.

use super::Running;
use crate::guards::{GuardTold, ReleaseOutcome};

impl Running<'_> {
    /// Has a policy in force again that its guard holds back, or says why not.
    pub(super) fn release(&mut self, path: &str) -> ReleaseOutcome {
        let Self { guarding, force, evidence, .. } = self;
        if let Err(reason) = guarding.release(path, force, evidence) {
            return ReleaseOutcome::Refused { reason };
        }
        let all = guarding.guards.all();
        match all.iter().find(|kept| kept.path == path) {
            Some(kept) => ReleaseOutcome::Done { guard: GuardTold::of(kept).into() },
            // It would have been refused.
            None => ReleaseOutcome::Refused { reason: "there is none".to_owned() },
        }
    }
}
