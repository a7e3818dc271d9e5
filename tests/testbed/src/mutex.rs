//! Mutexes that threads of a test share. A panic ends the test, whoever of them it comes
//! to, so that nobody goes on with what another has left half done.

use std::sync::{LockResult, Mutex, MutexGuard};

/// Locks a mutex.
///
/// # Panics
/// If a thread has panicked with it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Returns what a mutex gave when it was locked, or taken apart.
///
/// # Panics
/// If a thread has panicked with it.
pub fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.expect("nobody panics with it")
}
