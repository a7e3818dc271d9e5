//! The terminal while `wad top` has it: given back as it was, whatever ends that.

use std::{
    io::{self, Stdout},
    panic,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering},
    },
};

use nix::sys::signal::Signal;
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

pub struct Screen(pub Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub fn open() -> io::Result<Self> {
        give_back_at_a_panic();
        take()?;
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Stops this process as the shell's job control has it, until it is continued.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        signal_hook::low_level::emulate_default_handler(Signal::SIGTSTP as i32)?;
        take()?;
        self.0.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    let taken = enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Hide));
    if taken.is_err() {
        give_back();
    }
    taken
}

/// A terminal that is gone cannot be given back.
fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Gives the terminal back at a panic before its message, which would go with the
/// screen; and where a panic aborts, nothing is dropped.
fn give_back_at_a_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            hook(info);
        }));
    });
}

/// Signals are what others ask of this process.
pub struct Signals {
    stop: Arc<AtomicBool>,
    suspend: Arc<AtomicBool>,
}

impl Signals {
    pub fn catch() -> io::Result<Self> {
        let signals = Self { stop: Arc::default(), suspend: Arc::default() };
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            signal_hook::flag::register(signal as i32, Arc::clone(&signals.stop))?;
        }
        signal_hook::flag::register(Signal::SIGTSTP as i32, Arc::clone(&signals.suspend))?;
        Ok(signals)
    }

    #[must_use]
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Once for each time.
    #[must_use]
    pub fn suspend(&self) -> bool {
        self.suspend.swap(false, Ordering::Relaxed)
    }
}
