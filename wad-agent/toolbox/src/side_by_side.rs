//! Two pieces of work at the same time.

use std::{panic::resume_unwind, sync::Mutex, thread};

use crate::mutex::locked;

/// Does the first on a thread of its own while the second is done here; one after the other
/// where no thread can be had.
pub fn side_by_side<A: Send, B>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    let first = Mutex::new(Some(first));
    // Whoever comes first takes it: a thread that cannot be had leaves it there.
    let take = || {
        let work = locked(&first).take();
        work.map(|work| work())
    };
    thread::scope(|scope| {
        let beside = thread::Builder::new().spawn_scoped(scope, take);
        let second = second();
        let first = match beside {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => take(),
        };
        (first.expect("it is taken once"), second)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn both_are_done_at_the_same_time() {
        // Neither returns before the other has begun.
        let begun = Barrier::new(2);
        let (first, second) = side_by_side(
            || {
                begun.wait();
                "first"
            },
            || {
                begun.wait();
                "second"
            },
        );
        assert_eq!((first, second), ("first", "second"));
    }
}
