//! Mutexes of a process that a panic ends (`panic = "abort"`): none is ever poisoned.

use std::sync::{LockResult, Mutex, MutexGuard};

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Returns what locking a mutex gave, or waiting for its condition.
pub fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.expect("a panic ends the process")
}
