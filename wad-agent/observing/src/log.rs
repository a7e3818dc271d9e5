//! The log: to standard error, as text or JSON, from level `info` on. The
//! variable `WAD_LOG` takes the filters of tracing-subscriber, such as `debug` or
//! `warn,wad::events=debug`: modules are named as if all were one crate's.

mod writer;

use std::{
    env,
    fs::File,
    io::{self, IsTerminal, Write as _},
    os::fd::AsFd as _,
};

use tracing::{Dispatch, level_filters::LevelFilter};
use tracing_subscriber::{EnvFilter, filter, fmt::MakeWriter, util::TryInitError};
use wad_policy::config::LogFormat;

pub use self::writer::Flush;
use self::writer::Lines;

const VARIABLE: &str = "WAD_LOG";

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the variable {VARIABLE} is no filter for the log: {value:?} (try info or debug)")]
    Filter { value: String, source: filter::ParseError },
    #[error("the variable {VARIABLE} is not UTF-8")]
    NotText,
    #[error("cannot start the log")]
    Start(#[source] io::Error),
    #[error("a log is set up already")]
    Twice(#[from] TryInitError),
}

/// Sets up the log of this process, once. What is returned has to be dropped
/// last, or the last lines may be missing.
pub fn init(format: LogFormat) -> Result<Flush, LogError> {
    use tracing_subscriber::util::SubscriberInitExt;

    let filter = match env::var(VARIABLE) {
        Ok(value) => value,
        Err(env::VarError::NotPresent) => String::new(),
        Err(env::VarError::NotUnicode(_)) => return Err(LogError::NotText),
    };
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let style = match (format, io::stderr().is_terminal() && !no_color) {
        (LogFormat::Json, _) => Style::Json,
        (LogFormat::Text, true) => Style::Colored,
        (LogFormat::Text, false) => Style::Plain,
    };
    let (lines, flush) = standard_error().map_err(LogError::Start)?;
    subscriber(style, &filter, move || lines.clone())?.try_init()?;
    Ok(flush)
}

/// Writes one line to standard error, without waiting for long if nobody reads.
pub fn say(line: &str) {
    if let Ok((mut lines, _flush)) = standard_error() {
        let _ = lines.write_all(format!("{line}\n").as_bytes());
    }
}

fn standard_error() -> io::Result<(Lines, Flush)> {
    // Not `io::stderr()`: whoever is stuck writing to that one holds its lock.
    let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    writer::start(out, |lines| {
        tracing::warn!(lines, "lines of this log are lost: nobody read it fast enough");
    })
}

/// Returns a filter that names the modules of every crate of ours where it names one of
/// `wad`'s. Targets begin with the crate, `wad_observing::events`, and who reads a log
/// need not know which that is. `wad` alone is the beginning of all of them.
fn in_all_crates(filter: &str) -> String {
    const CRATES: [&str; 10] = [
        "struct_ops",
        "toolbox",
        "http",
        "instruments",
        "linux",
        "policy",
        "tuning",
        "observing",
        "agent",
        "commands",
    ];
    let directives =
        filter.split(',').map(|directive| match directive.trim().strip_prefix("wad::") {
            Some(rest) => CRATES.map(|own| format!("wad_{own}::{rest}")).join(","),
            None => directive.to_owned(),
        });
    directives.collect::<Vec<_>>().join(",")
}

#[derive(Clone, Copy)]
enum Style {
    Plain,
    Colored,
    Json,
}

fn subscriber<W>(style: Style, filter: &str, writer: W) -> Result<Dispatch, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(in_all_crates(filter))
        .map_err(|source| LogError::Filter { value: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(match style {
        Style::Json => builder.json().flatten_event(true).into(),
        Style::Colored => builder.with_target(false).with_ansi(true).into(),
        Style::Plain => builder.with_target(false).with_ansi(false).into(),
    })
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::{Style, subscriber};

    /// Returns what `run` logs as JSON, a line each, under a filter.
    pub fn logged(filter: &str, run: impl FnOnce()) -> Vec<serde_json::Value> {
        let text = written(Style::Json, filter, run);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) fn written(style: Style, filter: &str, run: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Buffer(Arc<Mutex<Vec<u8>>>);

        impl io::Write for Buffer {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let buffer = Buffer::default();
        let writer = buffer.clone();
        let dispatch = subscriber(style, filter, move || writer.clone()).unwrap();
        tracing::dispatcher::with_default(&dispatch, run);
        String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        testing::{logged, written},
        *,
    };

    fn some_lines() {
        tracing::debug!("too much");
        tracing::info!(path = "bob", bytes = 3, "flow closed");
    }

    #[test]
    fn json_has_fields_and_the_default_level_is_info() {
        let lines = logged("", some_lines);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["path"], "bob");
        assert_eq!(lines[0]["bytes"], 3);
        assert_eq!(lines[0]["message"], "flow closed");
        assert_eq!(lines[0]["level"], "INFO");
    }

    #[test]
    fn the_filter_rules() {
        assert_eq!(logged("debug", some_lines).len(), 2);
        assert_eq!(logged("error,wad::log=debug", some_lines).len(), 2);
        assert_eq!(logged("off", some_lines).len(), 0);
    }

    #[test]
    fn plain_text_has_no_color() {
        let plain = written(Style::Plain, "", some_lines);
        assert!(plain.ends_with("INFO flow closed path=\"bob\" bytes=3\n"), "{plain:?}");
        assert!(written(Style::Colored, "", some_lines).contains("\x1b["));
        assert!(!plain.contains('\x1b'));
    }

    #[test]
    fn a_module_is_named_without_its_crate() {
        let filter = in_all_crates("warn,wad::events[x]=debug, off");
        assert!(filter.starts_with("warn,wad_struct_ops::events[x]=debug,"), "{filter}");
        assert!(filter.contains(",wad_observing::events[x]=debug,"), "{filter}");
        assert!(filter.ends_with("wad_commands::events[x]=debug, off"), "{filter}");
        assert_eq!(in_all_crates("wad=debug"), "wad=debug");
        assert_eq!(logged("error,wad_observing::log=debug", some_lines).len(), 2);
    }

    #[test]
    fn a_bad_filter_is_named() {
        let error = subscriber(Style::Plain, "wad=loud", io::sink).unwrap_err().to_string();
        assert!(error.contains("WAD_LOG") && error.contains("wad=loud"), "{error}");
    }
}
