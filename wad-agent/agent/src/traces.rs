//! Traces of the configuration. A thread of its own reads the flows of each at its beat,
//! and another one writes: neither holds the agent up, whatever the disk does.

use std::{
    cell::OnceCell,
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tracing::{info, warn};
use wad_instruments::Reading;
use wad_linux::sysctl::Sysctl;
use wad_observing::{
    live_flows::LiveFlows,
    metrics::{Readings, TraceReading},
    reading::{Filter, OwnerFilter, ReadError, Source},
    trace::{
        Columns, Counts, Form, Head, News, Tracer, USUAL, VERSION, Voice,
        files::{Bounds, Files, Packing},
        is_standard,
    },
};
use wad_policy::config::Trace;
use wad_toolbox::{causes::with_causes, mutex::locked, shortage};

/// Lines that are not written at the end of the agent get this long.
const GRACE: Duration = Duration::from_secs(2);

/// All traces of an agent.
#[derive(Default)]
pub struct Traces {
    /// The traces in force, in the order of the configuration.
    writing: Vec<Writing>,
    /// The threads of those that were told to end, until they have.
    ending: Vec<JoinHandle<()>>,
    board: Board,
}

/// A trace that is written, or waits for a word to begin. Dropped, it ends.
struct Writing {
    trace: Trace,
    counts: Arc<Counts>,
    turn: Turn,
    /// Its end is its word to end.
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Held by who writes to a file: whoever is to go on with it waits until all of it is there.
type Turn = Arc<Mutex<()>>;

/// Tells how the traces in force get on.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<Vec<Told>>>);

/// A trace, and what is counted of it.
type Told = (Trace, Arc<Counts>);

/// Traces that can be put in force. If they are not, nothing has changed.
pub struct Ready(Vec<Next>);

enum Next {
    /// One that is written already.
    AsBefore(Trace),
    New(Writing, mpsc::Sender<Arc<LiveFlows>>),
}

impl Traces {
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Makes threads ready for those that are not written yet as they are to be.
    pub fn prepare(&self, traces: &[Trace]) -> Result<Ready> {
        let next = |trace: &Trace| {
            if self.writing.iter().any(|writing| writing.trace == *trace) {
                return Ok(Next::AsBefore(trace.clone()));
            }
            let of_file = |writing: &&Writing| writing.trace.file == trace.file;
            let turn = self.writing.iter().find(of_file).map(|writing| Arc::clone(&writing.turn));
            let (begin, begun) = mpsc::channel();
            let writing = Writing::start(trace, turn.unwrap_or_default(), begun)?;
            Ok(Next::New(writing, begin))
        };
        Ok(Ready(traces.iter().map(next).collect::<Result<_>>()?))
    }

    /// Has these traces of such flows be written from now on, and no others.
    pub fn put_in_force(&mut self, Ready(next): Ready, live: &Arc<LiveFlows>) {
        let mut before = std::mem::take(&mut self.writing);
        let mut begin = Vec::new();
        for next in next {
            match next {
                Next::AsBefore(trace) => {
                    let place = before.iter().position(|writing| writing.trace == trace);
                    self.writing.extend(place.map(|place| before.swap_remove(place)));
                }
                Next::New(writing, word) => {
                    self.writing.push(writing);
                    begin.push(word);
                }
            }
        }
        self.ending.retain(|thread| !thread.is_finished());
        self.ending.extend(before.into_iter().map(Writing::stop));
        for word in begin {
            // It waits for it.
            let _ = word.send(Arc::clone(live));
        }
        let told = self.writing.iter().map(|it| (it.trace.clone(), Arc::clone(&it.counts)));
        *locked(&self.board.0) = told.collect();
    }

    /// Has all of them end.
    pub fn stop(&mut self) {
        self.ending.extend(std::mem::take(&mut self.writing).into_iter().map(Writing::stop));
    }

    /// Waits a moment until all that was read is in the files.
    pub fn finish(self) {
        let until = Instant::now() + GRACE;
        let is_over = || self.ending.iter().all(JoinHandle::is_finished);
        while !is_over() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        if !is_over() {
            warn!("the last lines of traces may be missing: it takes too long to write them");
        }
    }
}

impl Board {
    /// Adds to readings how the traces get on.
    pub fn read(&self, readings: &mut Readings) {
        let reading = |(trace, counts): &Told| {
            let outcome = counts.outcome();
            TraceReading {
                name: trace.name.clone(),
                file: trace.file.clone(),
                lines: outcome.written,
                bytes: counts.bytes(),
                lost_lines: outcome.lost,
                missed_readings: counts.missed_readings(),
                failing: counts.fault(),
            }
        };
        readings.traces = locked(&self.0).iter().map(reading).collect();
    }
}

impl Writing {
    fn start(trace: &Trace, turn: Turn, begun: mpsc::Receiver<Arc<LiveFlows>>) -> Result<Self> {
        let counts = Arc::<Counts>::default();
        let (stop, stopped) = oneshot::channel();
        let (own, of_thread) = (trace.clone(), Arc::clone(&counts));
        let own_turn = Arc::clone(&turn);
        let run = move || {
            let Ok(live) = begun.recv() else { return };
            let _turn = locked(&own_turn);
            if let Err(error) = write(&own, &live, &of_thread, stopped) {
                shortage::note(error.as_ref());
                let (trace, why) = (own.name.as_str(), with_causes(&error));
                warn!(trace, "is not written until it is put in force anew: {why}");
                of_thread.fails(Some(why));
            }
        };
        let thread = thread::Builder::new().name("trace".to_owned()).spawn(run);
        let thread = thread.context("cannot start a thread for a trace")?;
        Ok(Self { trace: trace.clone(), counts, turn, stop, thread })
    }

    fn stop(self) -> JoinHandle<()> {
        drop(self.stop);
        self.thread
    }
}

/// Writes until it is stopped.
fn write(
    trace: &Trace,
    live: &Arc<LiveFlows>,
    counts: &Arc<Counts>,
    stopped: oneshot::Receiver<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let form = form(trace);
    let head = form.format.head(&Head {
        wad_trace: VERSION,
        version: env!("CARGO_PKG_VERSION"),
        host: Sysctl::default().host_name(),
        started: Timestamp::now(),
        interval_ms: u64::try_from(trace.interval.as_millis())?,
        instruments: form.columns.iter().collect(),
    });
    let packing = if trace.is_packed { Packing::Zstd } else { Packing::None };
    let bounds = Bounds { max_bytes: trace.max_bytes, keep: trace.keep };
    let out = Files::at_first_line(&trace.file, packing, bounds, &head);
    let mut tracer = Tracer::start(form, out, Arc::clone(counts), voice(&trace.name))?;
    let (source, filter, unreadable) = (live.source(), filter(trace), OnceCell::new());
    let ask = async || read(&source, &filter, &unreadable);
    runtime.block_on(async {
        if let Ok(first) = ask().await {
            let _ = tracer.take(&first);
        }
        let end = async {
            let _ = stopped.await;
        };
        tracer.follow(ask, end).await;
    });
    tracer.finish();
    Ok(())
}

/// Reads flows, unless it is known already that this kernel has no such fields.
fn read(
    source: &Source,
    filter: &Filter,
    unreadable: &OnceCell<String>,
) -> Result<Reading, String> {
    if let Some(why) = unreadable.get() {
        return Err(why.clone());
    }
    match source.read(filter) {
        Ok(reading) => Ok(reading),
        // It is in the file; at a reload the kernel has other paths a moment before.
        Err(ReadError::UnknownPath(_)) => Ok(Reading { time: Timestamp::now(), flows: Vec::new() }),
        Err(error) if error.is_of_question() => {
            Err(unreadable.get_or_init(|| error.to_string()).clone())
        }
        Err(error) => {
            shortage::note(&error);
            Err(with_causes(&error.into()))
        }
    }
}

fn form(trace: &Trace) -> Form {
    let usual = if trace.instruments.is_empty() { &USUAL[..] } else { &[] };
    let named = trace.instruments.iter().chain(&trace.fields).map(String::as_str);
    Form {
        columns: Columns::new(usual.iter().copied().chain(named)),
        format: trace.format.into(),
        interval: trace.interval,
        max_bytes: trace.max_bytes,
    }
}

fn filter(trace: &Trace) -> Filter {
    Filter {
        paths: trace.paths.clone(),
        remotes: trace.remote.iter().map(|prefix| (*prefix).into()).collect(),
        owners: OwnerFilter {
            users: trace.user.into_iter().collect(),
            pids: Vec::new(),
            processes: trace.processes.clone(),
            cgroups: trace.cgroup.iter().cloned().collect(),
            containers: trace.containers.clone(),
            pods: trace.pods.clone(),
            namespaces: trace.namespaces.clone(),
        },
        fields: trace.fields.iter().filter(|name| !is_standard(name)).cloned().collect(),
        ..Filter::default()
    }
}

/// Tells the log.
fn voice(name: &str) -> Voice {
    let name = name.to_owned();
    Arc::new(move |news| {
        let trace = name.as_str();
        match news {
            News::Silent { why } => {
                warn!(trace, "there are no readings: {why}; it goes on with the next one");
            }
            News::Heard => info!(trace, "there are readings again"),
            News::Refused { .. } => warn!(trace, "{news}"),
            News::Taken { .. } => info!(trace, "{news}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, Host};

    use super::*;

    fn trace(keys: &str) -> Trace {
        let text = format!(
            "[[trace]]\nname = 't'\nfile = '/t'\n{keys}\n[[path]]\nname = 'p'\nremote = '::1'\n"
        );
        Config::parse("wad.toml", &text, &Host::default()).unwrap().traces.remove(0)
    }

    #[test]
    fn flows_are_chosen_as_the_trace_says() {
        assert_eq!(filter(&trace("")), Filter::default());
        let keys = "paths = 'p'\nremote = ['10.0.0.0/8', '::1']\nuser = 5\nunit = 'a.service'\n\
                    process = 'curl'\ncontainer = ['ftp', '8b2f']\npod = 'transfer/dtn-0'\n\
                    namespace = 'transfer'\nfields = ['snd_wl1', 'CurCwnd']";
        let asked = "path=p&remote=10.0.0.0/8&remote=::1/128&user=5&unit=a.service\
                     &process=curl&container=ftp&container=8b2f&pod=transfer%2Fdtn-0\
                     &namespace=transfer&field=snd_wl1";
        assert_eq!(filter(&trace(keys)), Filter::parse(asked).unwrap());
    }

    #[test]
    fn columns_are_the_usual_ones_or_those_that_are_named_and_the_fields() {
        let names = |trace: &Trace| -> Vec<String> {
            form(trace).columns.iter().map(|column| column.name.clone()).collect()
        };
        assert_eq!(names(&trace("")), USUAL);
        assert_eq!(
            names(&trace("instruments = ['SmoothedRTT', 'CurCwnd']\nfields = ['snd_wl1']")),
            ["SmoothedRTT", "CurCwnd", "snd_wl1"]
        );
        assert_eq!(names(&trace("fields = ['snd_wl1']")).len(), USUAL.len() + 1);
    }
}
