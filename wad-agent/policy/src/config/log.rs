//! Reads `[log]`: how lines of the log are written, and which.

use super::{
    fault::{Fault, Problems, quoted},
    keys::{Key, LeftOut::Value, Takes::Words, key},
    table::{self, Table},
};

pub const TABLE: &str = "log";

pub const KEYS: &[Key] = &[
    key("format").takes(
        Words(&["text", "json"]),
        Value("\"text\""),
        "how lines of the log are written",
    ),
    key("level").takes(
        Words(&["error", "warn", "info", "debug", "trace"]),
        Value("\"info\""),
        "lines of this level and of those above it; the variable `WAD_LOG` has the last word",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    pub format: LogFormat,
    /// Lines of this level and of those above it.
    pub level: LogLevel,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: LogLevel::Info }
    }
}

/// Says from which level on the log has lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Returns the word of the file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

pub fn read(table: &Table<'_>, problems: &mut Problems) -> Log {
    let usual = Log::default();
    let format = table.read("format", problems, |value| match table::text(value)? {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(Fault::new(
            format!("{} is no format", quoted(other)),
            "it takes \"text\" or \"json\"",
        )),
    });
    let level = table.read("level", problems, |value| {
        let word = table::text(value)?;
        let level = LogLevel::ALL.into_iter().find(|level| level.word() == word);
        level.ok_or_else(|| {
            let label = "it takes \"error\", \"warn\", \"info\", \"debug\" or \"trace\"";
            Fault::new(format!("{} is no level", quoted(word)), label)
        })
    });
    Log {
        format: format.map_or(usual.format, |format| format.value),
        level: level.map_or(usual.level, |level| level.value),
    }
}
