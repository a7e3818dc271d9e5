//! A shell runs on a terminal of a given size, which is tmux: for programs that draw.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{ProcessError, run};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A terminal goes, with all that runs on it, when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    server: String,
}

impl Terminal {
    /// Opens a terminal with so many columns and lines.
    ///
    /// # Errors
    /// When there is no tmux.
    pub fn open(columns: u16, lines: u16) -> Result<Self, ProcessError> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { server: format!("wad-{}-{number}", std::process::id()) };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        // Nobody's own settings, and the prompt of any shell.
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &lines,
            "sh",
        ])?;
        // tmux has a line of its own at the bottom.
        terminal.tmux(&["set", "status", "off"])?;
        terminal.tmux(&["resize-window", "-x", &columns, "-y", &lines])?;
        Ok(terminal)
    }

    /// Types a text as it is.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn type_in(&self, text: &str) -> Result<(), ProcessError> {
        self.tmux(&["send-keys", "-l", text]).map(|_| ())
    }

    /// Presses a key that has a name: "Enter", "C-z", "NPage".
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn press(&self, key: &str) -> Result<(), ProcessError> {
        self.tmux(&["send-keys", key]).map(|_| ())
    }

    /// Has the shell run a command.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn run(&self, command: &str) -> Result<(), ProcessError> {
        self.type_in(command)?;
        self.press("Enter")
    }

    /// Returns what the terminal shows.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn picture(&self) -> Result<String, ProcessError> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Tells whether a program has taken the whole screen, and hidden the cursor.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn is_taken(&self) -> Result<bool, ProcessError> {
        let flags = self.tmux(&["display-message", "-p", "#{alternate_on}#{cursor_flag}"])?;
        Ok(flags.trim() != "01")
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String, ProcessError> {
        run("tmux", &[&["-L", &self.server], arguments].concat())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already where its shell has.
        let _ = self.tmux(&["kill-server"]);
    }
}
