//! Work that changes what the kernel holds for a thread, as its network namespace is, is
//! done on a thread of its own.

use std::{io, panic::resume_unwind, thread};

use wad_toolbox::shortage;

/// Does work on a thread of its own, and waits for it. It is an error where none can be had.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("namespaces".to_owned());
        let thread = thread.spawn_scoped(scope, work).map_err(shortage::of_threads)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
