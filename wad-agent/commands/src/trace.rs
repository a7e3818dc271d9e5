//! `wad trace`: chosen instruments of chosen flows, read at a steady beat and
//! written to a file.

use std::{
    fs,
    fs::OpenOptions,
    future, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use tokio::time;
use wad_agent::client::{self, Request};
use wad_instruments::Reading;
use wad_linux::{lock, sysctl::Sysctl};
use wad_observing::{
    log,
    reading::Filter,
    trace::{
        Columns, Ended, Form, Format, Head, News, Tracer, USUAL, VERSION, WriteOutcome,
        files::{self, Bounds, Files, Out, Packing, Stream},
        is_standard,
    },
};
use wad_policy::config::{
    self, TRACE_INTERVALS, TRACE_INTERVALS_IN_WORDS, TRACE_KEEP, TRACE_MAX_BYTES, TRACE_MIN_BYTES,
};
use wad_toolbox::signals::Stop;

use crate::{
    arguments::{FlowFilter, InstanceName},
    error::CommandError,
};

#[derive(Debug, Args)]
pub struct Trace {
    #[command(flatten)]
    pub filter: FlowFilter,
    /// These instead of the usual ones, by the names that `wad flows --instruments`
    /// lists
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub instruments: Vec<String>,
    /// This member of the kernel's `struct tcp_sock` too; may be given several times
    #[arg(long = "field", value_name = "NAME")]
    pub fields: Vec<String>,
    /// Between two readings: 10ms to 1h
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_beat)]
    pub interval: Duration,
    /// End after this time [default: at SIGINT or SIGTERM]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// How lines are written
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub format: Format,
    /// Pack them with zstd
    #[arg(long)]
    pub zstd: bool,
    /// Write to this file; an older trace there is kept as FILE.1 [default: standard
    /// output, without bound]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Begin another file when this one would be larger [default: 64MiB]
    #[arg(long, value_name = "SIZE", requires = "out", value_parser = parse_file_size)]
    pub max_bytes: Option<u64>,
    /// Files that are kept: FILE and the older FILE.1, FILE.2, ... [default: 8]
    #[arg(long, value_name = "N", requires = "out",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub keep: Option<u32>,
    #[command(flatten)]
    pub instance: InstanceName,
}

impl Trace {
    fn max_bytes(&self) -> u64 {
        self.max_bytes.unwrap_or(TRACE_MAX_BYTES)
    }
}

fn parse_beat(text: &str) -> Result<Duration, String> {
    let words = TRACE_INTERVALS_IN_WORDS;
    config::duration(text, TRACE_INTERVALS, words).map_err(|fault| fault.to_string())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(10)..=Duration::from_secs(365 * 86_400);
    config::duration(text, range, "10ms to 365d").map_err(|fault| fault.to_string())
}

/// Reads a size, at least what a file needs for its first line and one more.
fn parse_file_size(text: &str) -> Result<u64, String> {
    let bytes = config::bytes(text).map_err(|fault| fault.to_string())?;
    if bytes < TRACE_MIN_BYTES { Err("it takes 64KiB or more".to_owned()) } else { Ok(bytes) }
}

/// `wad trace`.
pub fn run(args: &Trace) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(trace(args))
}

async fn trace(args: &Trace) -> Result<()> {
    let columns = columns(args);
    let fields = args.fields.iter().filter(|name| !is_standard(name)).cloned().collect();
    let filter = Filter { fields, ..args.filter.to_filter() };
    let instance = args.instance.name.name();
    let socket = lock::socket(Path::new(lock::RUN_DIR), instance);
    let request = Request::get(format!("/v1/flows?{filter}"));
    let ask = || client::ask::<Reading>(&socket, instance, &request);

    let first = ask().await?;
    columns.check(&first)?;
    if first.flows.is_empty()
        && let Some(unknown) = columns.unsure(&args.fields)
    {
        log::say(&format!("until there is a flow, none can tell: {unknown}"));
    }

    let head = args.format.head(&Head {
        wad_trace: VERSION,
        version: env!("CARGO_PKG_VERSION"),
        host: Sysctl::default().host_name(),
        started: first.time,
        interval_ms: u64::try_from(args.interval.as_millis())?,
        instruments: columns.iter().collect(),
    });
    let out = out(args, &head)?;
    let form =
        Form { columns, format: args.format, interval: args.interval, max_bytes: args.max_bytes() };
    let voice = Arc::new(|news: &News| log::say(&news.to_string()));
    let mut tracer = Tracer::start(form, out, Arc::default(), voice)?;
    let mut stop = Stop::new()?;
    // Standard output may have been closed already.
    if tracer.take(&first) == Ok(()) {
        let over = async {
            match args.duration {
                Some(duration) => time::sleep(duration).await,
                None => future::pending().await,
            }
        };
        let end = async {
            tokio::select! {
                () = stop.asked() => {}
                () = over => {}
            }
        };
        // Whoever restarts the agent need not start the trace again.
        tracer.follow(ask, end).await;
    }
    finish(tracer)
}

/// The usual instruments, or those that are named; and the fields.
fn columns(args: &Trace) -> Columns {
    let usual = if args.instruments.is_empty() { &USUAL[..] } else { &[] };
    let names = usual.iter().copied().chain(args.instruments.iter().map(String::as_str));
    Columns::new(names.chain(args.fields.iter().map(String::as_str)))
}

fn out(args: &Trace, head: &[u8]) -> Result<Box<dyn Out>> {
    let packing = if args.zstd { Packing::Zstd } else { Packing::None };
    let Some(path) = &args.out else {
        let stream = Stream::begin(io::stdout(), packing, head);
        return Ok(Box::new(stream.context("cannot write to standard output")?));
    };
    let named = || format!("cannot write a trace to {}", path.display());
    if files::is_stream(path) {
        if args.max_bytes.is_some() || args.keep.is_some() {
            return Err(CommandError::BoundsOfStream { file: path.clone() }.into());
        }
        let file = OpenOptions::new().write(true).open(path).with_context(named)?;
        return Ok(Box::new(Stream::begin(file, packing, head).with_context(named)?));
    }
    ensure!(
        files::may_replace(path).with_context(named)?,
        "{} is there, and is no trace: it is left alone; name another file",
        path.display()
    );
    // Of a link, what it leads to is moved out of the way: it may be /dev/stdout.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let bounds = Bounds { max_bytes: args.max_bytes(), keep: args.keep.unwrap_or(TRACE_KEEP) };
    Ok(Box::new(Files::begin(path, packing, bounds, head).with_context(named)?))
}

fn finish(tracer: Tracer) -> Result<()> {
    let Ended { outcome, missed } = tracer.finish();
    let WriteOutcome { written, lost, error } = outcome;
    log::say(&format!("{written} lines written, {missed} readings missed"));
    if lost > 0 {
        return Err(CommandError::LinesLost { lines: lost, last: error }.into());
    }
    error.map_or(Ok(()), |error| bail!(error))
}
