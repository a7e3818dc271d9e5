//! Reading the instruments of all flows at once.

use std::{
    collections::HashSet,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use nix::time::{ClockId, clock_getres};
use wad_common::instruments::{Head, MAX_MEMBERS};

use super::{
    Flow, Reading, STANDARD, Values,
    fields::Fields,
    seen::{MEMBERS, Seen},
};
use crate::{
    bpf::{InstrumentsReader, Tuning, TuningError},
    flows::Filter,
    shown,
    struct_ops::{BtfError, KernelBtf},
};

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{name}` is no number in this kernel's `struct tcp_sock`; near to it {}", list(near))]
    UnknownField { name: String, near: Vec<String> },
    #[error(
        "more fields are asked for than are read at once: {most} of these, and {} for the \
         instruments that every reading has, of {MAX_MEMBERS}",
        MEMBERS.len()
    )]
    TooManyFields { most: usize },
    #[error("no path in force is called {0:?}: `wad status` lists them")]
    UnknownPath(String),
    #[error(transparent)]
    Tuning(#[from] TuningError),
    #[error(transparent)]
    Btf(#[from] BtfError),
    #[error("cannot tell how long a tick of the kernel's clock is")]
    Tick(#[source] io::Error),
}

impl Error {
    /// Whether it is the question that is wrong.
    pub const fn is_of_question(&self) -> bool {
        matches!(
            self,
            Self::UnknownField { .. } | Self::TooManyFields { .. } | Self::UnknownPath(_)
        )
    }
}

fn list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {}", if quoted.len() == 1 { "is" } else { "are" }, quoted.join(", "))
}

/// What reads them, for as long as the tuning is there. The kernel side is loaded at
/// the first question.
pub struct Instruments {
    tuning: Arc<Tuning>,
    readers: Mutex<Readers>,
}

/// Loaded so far.
#[derive(Default)]
struct Readers {
    standard: Option<Reader>,
    /// With the fields that were asked for last.
    with_fields: Option<Reader>,
}

/// One for a list of fields.
struct Reader {
    asked: Vec<String>,
    fields: Fields,
    /// Of all values: instruments, then fields.
    names: Arc<[String]>,
    tick_ms: f64,
    kernel: InstrumentsReader,
}

impl Instruments {
    pub fn new(tuning: Arc<Tuning>) -> Self {
        Self { tuning, readers: Mutex::default() }
    }

    /// The flows that a filter lets through, as they are now. It may block for tens
    /// of milliseconds where there are thousands.
    pub fn read(&self, filter: &Filter) -> Result<Reading, Error> {
        if let Some(path) = filter.paths.iter().find(|path| !self.tuning.has_path(path)) {
            return Err(Error::UnknownPath(path.clone()));
        }
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = readers.get(&self.tuning, &filter.fields)?;
        let time = Timestamp::now();
        let output = reader.kernel.read()?;
        let records = reader.kernel.records(&output);
        let wanted: Vec<_> = records.filter(|record| filter.takes(&record.head)).collect();
        let policies: HashSet<u32> = wanted.iter().map(|record| record.head.policy).collect();
        let names = self.tuning.names_of(&policies);
        let mut seen = HashSet::new();
        let flows = wanted.iter().filter_map(|record| {
            let path = names.get(&record.head.policy).map_or("(removed)", |name| name);
            let is_wanted = filter.takes_path(path) && seen.insert(record.head.cookie);
            is_wanted.then(|| reader.flow(&record.head, path, &|n| record.member(n)))
        });
        Ok(Reading { time, flows: flows.collect() })
    }
}

impl Readers {
    fn get(&mut self, tuning: &Tuning, asked: &[String]) -> Result<&Reader, Error> {
        let place = if asked.is_empty() { &mut self.standard } else { &mut self.with_fields };
        if place.as_ref().is_none_or(|reader| reader.asked != asked) {
            *place = Some(Reader::load(tuning, asked)?);
        }
        Ok(place.as_ref().expect("there is one now"))
    }
}

impl Reader {
    fn load(tuning: &Tuning, asked: &[String]) -> Result<Self, Error> {
        let btf = KernelBtf::read()?;
        let fields = Fields::of(&btf, asked)?;
        let kernel = tuning.instruments_reader(&btf, &fields.members)?;
        let standard = STANDARD.iter().map(|instrument| instrument.name.to_owned());
        let names = standard.chain(asked.iter().cloned()).collect();
        Ok(Self { asked: asked.to_vec(), fields, names, tick_ms: tick_ms()?, kernel })
    }

    fn flow(&self, head: &Head, path: &str, bytes: &dyn Fn(usize) -> u64) -> Flow {
        let seen = Seen { head, fields: &self.fields.standard, bytes, tick_ms: self.tick_ms };
        let standard = STANDARD.iter().map(|instrument| seen.value(&instrument.origin));
        let asked = self.fields.asked.iter().map(|field| Some(field.number(bytes(field.n))));
        Flow {
            cookie: head.cookie,
            netns: head.netns.into(),
            path: path.to_owned(),
            local: address(head.local, head.local_port),
            remote: remote(head),
            role: shown::role(head.role).to_owned(),
            outcome: shown::outcome(head.outcome).to_owned(),
            congestion: shown::text(&head.congestion),
            instruments: Values::new(Arc::clone(&self.names), standard.chain(asked).collect()),
        }
    }
}

/// The coarse clocks have just this resolution.
fn tick_ms() -> Result<f64, Error> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE);
    let tick = tick.map_err(|error| Error::Tick(error.into()))?;
    Ok(tick.tv_sec() as f64 * 1e3 + tick.tv_nsec() as f64 / 1e6)
}

/// The other end of a flow.
pub fn remote(head: &Head) -> SocketAddr {
    address(head.remote, head.remote_port)
}

fn address(words: [u32; 4], port: u16) -> SocketAddr {
    let mut octets = [0; 16];
    for (place, word) in octets.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    shown::address(octets, port)
}
