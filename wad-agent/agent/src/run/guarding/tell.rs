//! Changes of guards are told in the log.

use tracing::{info, warn};
use wad_evidence::guard::{Change, State};

/// Says in the log what a guard does.
pub fn tell(path: &str, change: &Change, is_dry_run: bool) {
    if let Some(harm) = &change.harm {
        let done = if is_dry_run { "it would be held back" } else { "it is held back" };
        warn!(
            path,
            "its policy hurts, and {done}: {}, {:.1} times, in {} looks ({} is no harm)",
            harm.signal,
            harm.ratio,
            harm.ticks,
            harm.margin
        );
        return;
    }
    match (change.from, change.to) {
        (_, State::HoldOff { left }) => {
            info!(path, "all its connections are at the kernel's defaults, for {left:?}");
        }
        (_, State::Trial { .. }) => {
            info!(path, "its policy is tried with a part of new connections");
        }
        (State::Watching { .. }, _) => info!(path, "its guard knows how it is, and watches"),
        (_, State::InForce { .. }) => info!(path, "its policy is in force again"),
        (_, State::Watching { .. } | State::Tripped) => {}
    }
}
