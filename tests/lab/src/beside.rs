//! Cases of a study run beside each other, each over a path of its own.

use std::thread;

use anyhow::Result;

/// Runs all of them at the same time, and returns what came of each, in their order.
///
/// # Errors
/// With the first that failed, once all have ended.
pub(crate) fn each<C: Sync, O: Send>(
    cases: Vec<&C>,
    over: impl Fn(&C) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let over = &over;
    thread::scope(|scope| {
        let run = |case| scope.spawn(move || over(case));
        let running: Vec<_> = cases.into_iter().map(run).collect();
        let ended = running.into_iter().map(|one| one.join().expect("it does not panic"));
        ended.collect()
    })
}
