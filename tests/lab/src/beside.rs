//! Cases of a scenario run beside each other, each over a path of its own, and are judged together.

use std::thread;

use anyhow::{Result, ensure};

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

/// Returns the text, if no target was missed.
///
/// # Errors
/// With both, if any was.
pub(crate) fn judged<'a>(
    text: String,
    missed: impl IntoIterator<Item = &'a String>,
) -> Result<String> {
    let missed: Vec<_> = missed.into_iter().map(String::as_str).collect();
    ensure!(missed.is_empty(), "{text}\nmissed:\n  {}", missed.join("\n  "));
    Ok(text)
}
