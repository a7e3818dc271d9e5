//! SIGINT, SIGTERM and SIGHUP become an error that unwinds through the guards, so that
//! whatever was set up is undone. All waiting goes through here.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A wait notices a signal this soon.
const STEP: Duration = Duration::from_millis(20);

/// A signal asked the process to stop.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("interrupted by a signal")]
pub struct Interrupted;

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Catches the signals: from here on the three signals no longer kill the process.
///
/// # Errors
/// When the kernel refuses the handler.
pub fn catch() -> nix::Result<()> {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(())
}

/// # Errors
/// When a signal has come.
pub fn check() -> Result<(), Interrupted> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

/// Sleeps, unless a signal comes.
///
/// # Errors
/// When a signal has come.
pub fn sleep(span: Duration) -> Result<(), Interrupted> {
    let end = Instant::now() + span;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(STEP));
    }
}
