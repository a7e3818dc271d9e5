//! The log: to standard error, as text or JSON, from the level on that the configuration
//! has. The variable `WAD_LOG` takes its place, by filters of targets as tracing-subscriber has
//! them, such as `debug` or `warn,wad::events=debug`: modules are named as if all were one crate's.
//!
//! Where systemd's journal reads standard error, each line says its priority.

mod journal;
mod writer;

use std::{
    env,
    io::{self, IsTerminal, Write as _},
};

use tracing::{Dispatch, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry,
    filter::{self, Targets},
    fmt::MakeWriter,
    layer::{Layered, SubscriberExt as _},
    reload,
    util::TryInitError,
};
use wad_policy::config::{Log, LogFormat, LogLevel};

use self::journal::Prioritized;
pub use self::writer::Flush;

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
    #[error("cannot change the log")]
    Change(#[from] reload::Error),
}

/// The log of this process. It has to be dropped last, or the last lines may be missing.
#[must_use]
pub struct Logging {
    handles: Handles,
    writer: Prioritized,
    _flush: Flush,
}

/// Sets up the log of this process, once.
pub fn init(log: Log) -> Result<Logging, LogError> {
    use tracing_subscriber::util::SubscriberInitExt;

    let (writer, flush) = standard_error().map_err(LogError::Start)?;
    let filter = filter(&variable()?, log.level)?;
    let (subscriber, handles) = subscriber(style(log.format), filter, writer.clone());
    subscriber.try_init()?;
    Ok(Logging { handles, writer, _flush: flush })
}

impl Logging {
    /// Has the lines from now on in another format, and of another level.
    pub fn change(&self, log: Log) -> Result<(), LogError> {
        self.handles.filter.reload(filter(&variable()?, log.level)?)?;
        Ok(self.handles.lines.reload(lines(style(log.format), self.writer.clone()))?)
    }
}

fn variable() -> Result<String, LogError> {
    match env::var(VARIABLE) {
        Ok(value) => Ok(value),
        Err(env::VarError::NotPresent) => Ok(String::new()),
        Err(env::VarError::NotUnicode(_)) => Err(LogError::NotText),
    }
}

fn style(format: LogFormat) -> Style {
    match (format, takes_color()) {
        (LogFormat::Json, _) => Style::Json,
        (LogFormat::Text, true) => Style::Colored,
        (LogFormat::Text, false) => Style::Plain,
    }
}

/// Whether standard error is a terminal, and nobody asks for no color (no-color.org).
fn takes_color() -> bool {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !no_color
}

/// Writes one line to standard error, without waiting for long if nobody reads.
pub fn say(line: &str) {
    if let Ok((mut lines, _flush)) = standard_error() {
        let _ = lines.write_all(format!("{line}\n").as_bytes());
    }
}

/// Writes an error to standard error, as [`say`] does.
pub fn say_error(error: &str) {
    if let Ok((writer, _flush)) = standard_error() {
        let label = if takes_color() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
        let line = format!("{label} {error}\n");
        let _ = writer.at(tracing::Level::ERROR).write_all(line.as_bytes());
    }
}

fn standard_error() -> io::Result<(Prioritized, Flush)> {
    let to_journal = journal::reads_standard_error();
    let (lines, flush) = writer::start(StandardError, |lines| {
        tracing::warn!(lines, "lines of this log are lost: nobody read it fast enough");
    })?;
    Ok((Prioritized { lines, to_journal }, flush))
}

/// Writes to standard error. Who is stuck there holds no lock meanwhile, as `io::Stderr` does,
/// and no descriptor is taken for it.
struct StandardError;

impl io::Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(nix::unistd::write(io::stderr(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a filter that names the modules of every crate of ours where it names one of
/// `wad`'s. Targets begin with the crate, `wad_observing::events`, and who reads a log
/// need not know which that is. `wad` alone is the beginning of all of them.
fn in_all_crates(filter: &str) -> String {
    const CRATES: [&str; 12] = [
        "struct_ops",
        "toolbox",
        "http",
        "instruments",
        "linux",
        "policy",
        "tuning",
        "observing",
        "probing",
        "peers",
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

/// Lines of the log, below a filter that may be changed.
type Lines = Box<dyn Layer<Layered<reload::Layer<Targets, Registry>, Registry>> + Send + Sync>;

/// By these the log is changed while it is written.
struct Handles {
    filter: reload::Handle<Targets, Registry>,
    lines: reload::Handle<Lines, Layered<reload::Layer<Targets, Registry>, Registry>>,
}

/// Returns the filter of the variable, or of the level where that is empty.
fn filter(text: &str, level: LogLevel) -> Result<Targets, LogError> {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    if text.trim().is_empty() {
        return Ok(Targets::new().with_default(level));
    }
    in_all_crates(text)
        .parse()
        .map_err(|source| LogError::Filter { value: text.to_owned(), source })
}

fn lines<W>(style: Style, writer: W) -> Lines
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match style {
        Style::Json => layer.json().flatten_event(true).boxed(),
        Style::Colored => layer.with_target(false).with_ansi(true).boxed(),
        Style::Plain => layer.with_target(false).with_ansi(false).boxed(),
    }
}

fn subscriber<W>(style: Style, filter: Targets, writer: W) -> (Dispatch, Handles)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, of_filter) = reload::Layer::new(filter);
    let (lines, of_lines) = reload::Layer::new(lines(style, writer));
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    (subscriber.into(), Handles { filter: of_filter, lines: of_lines })
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use wad_policy::config::LogLevel;

    use super::{Style, subscriber};

    /// Returns what `run` logs as JSON, a line each, under a filter.
    pub fn logged(filter: &str, run: impl FnOnce()) -> Vec<serde_json::Value> {
        let text = written(Style::Json, filter, run);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) fn written(style: Style, filter: &str, run: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let filter = super::filter(filter, LogLevel::Info).unwrap();
        let (dispatch, _handles) = subscriber(style, filter, move || writer.clone());
        tracing::dispatcher::with_default(&dispatch, run);
        buffer.text()
    }

    #[derive(Clone, Default)]
    pub(super) struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Buffer {
        pub(super) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        testing::{Buffer, logged, written},
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
    fn the_level_holds_where_there_is_no_filter_and_can_be_changed() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let writer = move || writer.clone();
        let quiet = filter("", LogLevel::Error).unwrap();
        let (dispatch, handles) = subscriber(Style::Plain, quiet, writer.clone());
        let log = || tracing::dispatcher::with_default(&dispatch, some_lines);
        log();
        assert_eq!(buffer.text(), "");
        tracing::dispatcher::with_default(&dispatch, || {
            handles.filter.reload(filter("", LogLevel::Debug).unwrap()).unwrap();
            handles.lines.reload(lines(Style::Json, writer)).unwrap();
        });
        log();
        let lines = buffer.text();
        assert!(lines.lines().count() == 2 && lines.starts_with('{'), "{lines}");
        // The variable has the last word.
        let both = filter("error", LogLevel::Debug).unwrap();
        assert_eq!(both.default_level(), Some(LevelFilter::ERROR));
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
        let filter = in_all_crates("warn,wad::events=debug, off");
        assert!(filter.starts_with("warn,wad_struct_ops::events=debug,"), "{filter}");
        assert!(filter.contains(",wad_observing::events=debug,"), "{filter}");
        assert!(filter.ends_with("wad_commands::events=debug, off"), "{filter}");
        assert_eq!(in_all_crates("wad=debug"), "wad=debug");
        assert_eq!(logged("error,wad_observing::log=debug", some_lines).len(), 2);
    }

    #[test]
    fn every_crate_that_logs_is_meant() {
        let filter = in_all_crates("wad::m=off");
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut logging = 0;
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"));
            if manifest.is_ok_and(|text| text.lines().any(|line| line.starts_with("tracing"))) {
                logging += 1;
                let name = entry.file_name().to_string_lossy().replace('-', "_");
                assert!(filter.contains(&format!("wad_{name}::m=off")), "{name}: {filter}");
            }
        }
        assert!(logging >= 6, "{logging} crates log");
    }

    #[test]
    fn a_bad_filter_is_named() {
        let error = filter("wad=loud", LogLevel::Info).unwrap_err().to_string();
        assert!(error.contains("WAD_LOG") && error.contains("wad=loud"), "{error}");
    }
}
