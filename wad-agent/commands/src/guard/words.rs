//! Words for what guards do.

use std::time::Duration;

use wad_agent::guards::GuardTold;
use wad_evidence::guard::Shown;

/// Says what a guard does.
#[must_use]
pub fn state(guard: &GuardTold) -> String {
    let GuardTold { state, left_seconds, dry_run, share, .. } = guard;
    let words = state.words();
    let left = left_seconds.map(|left| Duration::from_secs(left.ceil() as u64));
    let left = left.map_or_else(String::new, |left| format!(" for {left:?}"));
    let held = if *share == 0.0 && left.is_empty() { ", at the defaults" } else { "" };
    let dry = if *dry_run { ", dry run" } else { "" };
    format!("{words}{left}{held}{dry}")
}

/// Says how a signal stands.
#[must_use]
pub fn signal(Shown { signal, ratio, ticks, .. }: &Shown) -> String {
    format!("{signal}: {ratio:.1} times, in {ticks} looks")
}
