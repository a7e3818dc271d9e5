//! Reading the instruments of all flows at once.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use wad_common::{instruments::Head, policy::NO_PATH, signals::Signals};
use wad_instruments::{
    FieldError, Fields, Flow, Instrument, Owner, Reading, STANDARD, Seen, Values, ends,
};
use wad_linux::tick::tick;
use wad_struct_ops::{BtfError, KernelBtf};
use wad_toolbox::{mutex::locked, refusals, shown};
use wad_tuning::bpf::{InstrumentsReader, OthersReader, Tuning, TuningError};

use super::{Filter, holder_search::HolderSearch, of_cgroup::OfCgroup};
use crate::owners::Owners;

/// Says why there is no reading.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Fields(#[from] FieldError),
    #[error("no path in force is called {0:?}: `wad status` lists them")]
    UnknownPath(String),
    #[error(transparent)]
    Tuning(#[from] TuningError),
    #[error(transparent)]
    Btf(#[from] BtfError),
    #[error("cannot tell how long a tick of the kernel's clock is")]
    Tick(#[source] io::Error),
}

impl ReadError {
    /// Whether it is the question that is wrong.
    pub const fn is_of_question(&self) -> bool {
        match self {
            Self::UnknownPath(_) => true,
            Self::Fields(error) => error.is_of_question(),
            Self::Tuning(_) | Self::Btf(_) | Self::Tick(_) => false,
        }
    }
}

/// The name of the path of connections that are on none: no path can have it.
const NO_PATH_NAME: &str = "";

/// Reads the instruments of flows, for as long as the tuning is there. The kernel
/// side is loaded at the first question.
pub struct Instruments {
    tuning: Arc<Tuning>,
    readers: Mutex<Readers>,
    owners: Arc<Owners>,
    holders: Arc<Mutex<HolderSearch>>,
}

/// Loaded so far.
#[derive(Default)]
struct Readers {
    standard: Option<Reader>,
    /// The reader with the fields that were asked for last.
    with_fields: Option<Reader>,
    /// The reader of some instruments only.
    narrow: Option<Reader>,
}

/// Says what is to be read of each flow.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    /// The names of the standard instruments to read; None for all.
    only: Option<Vec<String>>,
    fields: Vec<String>,
}

/// Says how far it is told whose flows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    All,
    /// As far as it is known without a search.
    Places,
    Nobody,
}

/// A reader is for a list of fields.
struct Reader {
    kernel: InstrumentsReader,
    /// The connections on no path, once somebody has asked for them.
    others: OfCgroup<OthersReader>,
    view: View,
    /// The output: what the kernel said last; kept, because there is as much of it
    /// the next time.
    output: Vec<u8>,
}

/// A view is what is made of the kernel's bytes.
struct View {
    question: Question,
    instruments: Vec<&'static Instrument>,
    fields: Fields,
    /// The names of all values: instruments, then fields.
    names: Arc<[String]>,
    tick_ms: f64,
}

impl Instruments {
    pub fn new(tuning: Arc<Tuning>) -> Self {
        Self::with_owners(tuning, Arc::default())
    }

    /// Returns those of flows whose owners others name, too.
    pub fn with_owners(tuning: Arc<Tuning>, owners: Arc<Owners>) -> Self {
        let (readers, holders) = (Mutex::default(), Arc::default());
        Self { tuning, readers, owners, holders }
    }

    /// Returns another way to the same: whoever reads again and again, and asks for fields
    /// of its own, keeps nobody from reading.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            tuning: Arc::clone(&self.tuning),
            readers: Mutex::default(),
            owners: Arc::clone(&self.owners),
            holders: Arc::clone(&self.holders),
        }
    }

    /// The flows that a filter lets through, as they are now. It may block for tens
    /// of milliseconds where there are thousands.
    pub fn read(&self, filter: &Filter) -> Result<Reading, ReadError> {
        self.answer(filter, &Question { only: None, fields: filter.fields.clone() }, Whose::All)
    }

    /// The same, without whose they are but their cgroups and pods: nobody's process is searched
    /// for.
    pub fn read_with_places(&self, filter: &Filter) -> Result<Reading, ReadError> {
        self.answer(filter, &Question { only: None, fields: filter.fields.clone() }, Whose::Places)
    }

    /// The same, without whose they are.
    pub fn read_without_owners(&self, filter: &Filter) -> Result<Reading, ReadError> {
        self.answer(filter, &Question { only: None, fields: filter.fields.clone() }, Whose::Nobody)
    }

    /// All flows, with these instruments and members of `struct tcp_sock` alone: so
    /// thousands can be read again and again.
    pub fn read_only(
        &self,
        instruments: Vec<String>,
        fields: Vec<String>,
    ) -> Result<Reading, ReadError> {
        let question = Question { only: Some(instruments), fields };
        self.answer(&Filter::default(), &question, Whose::Nobody)
    }

    fn answer(
        &self,
        filter: &Filter,
        question: &Question,
        whose: Whose,
    ) -> Result<Reading, ReadError> {
        if let Some(path) = filter.paths.iter().find(|path| !self.tuning.has_path(path)) {
            return Err(ReadError::UnknownPath(path.clone()));
        }
        let mut readers = locked(&self.readers);
        let reader = readers.get(&self.tuning, question)?;
        let time = Timestamp::now();
        reader.read()?;
        let mut holders = locked(&self.holders);
        if whose == Whose::All
            && (filter.all || reader.has_unknown_process())
            && holders.search(&self.tuning)
        {
            reader.read()?;
        }
        if filter.all {
            reader.read_others(&self.tuning)?;
        }
        let Reader { output, kernel, view, .. } = reader;
        let records = kernel.records(output);
        let wanted: Vec<_> = records.filter(|record| filter.takes(&record.head)).collect();
        let policies: HashSet<u32> = wanted.iter().map(|record| record.head.policy).collect();
        let names = self.tuning.names_of(&policies);
        let (removed, none) = (Arc::from("(removed)"), Arc::from(NO_PATH_NAME));
        let mut seen = HashSet::with_capacity(wanted.len());
        let mut algorithms = HashMap::new();
        let flows = wanted.iter().filter_map(|record| {
            let head = &record.head;
            let is_other = head.policy == NO_PATH;
            let path = names.get(&head.policy).unwrap_or(if is_other { &none } else { &removed });
            if !filter.takes_path(path) || !seen.insert(head.cookie) {
                return None;
            }
            let owner = match whose {
                Whose::All => {
                    let of_other = is_other.then(|| holders.of_other(head.cookie));
                    let process = of_other.as_ref().unwrap_or(&record.process);
                    self.owners.of(head.user, head.cgroup, process)
                }
                Whose::Places => self.owners.of(head.user, head.cgroup, &record.process),
                Whose::Nobody => Owner::default(),
            };
            if !filter.takes_owner(&owner) {
                return None;
            }
            let congestion = algorithms
                .entry(&head.congestion)
                .or_insert_with(|| shown::text(&head.congestion).into());
            Some(Flow {
                cookie: head.cookie,
                netns: head.netns.into(),
                path: Arc::clone(path),
                local: ends::local(head),
                remote: ends::remote(head),
                role: shown::role(head.role).into(),
                outcome: shown::outcome(head.outcome).into(),
                refused: refusals::of(&head.refused),
                congestion: Arc::clone(congestion),
                owner,
                instruments: view.values(head, record.signals, &|n| record.member(n)),
            })
        });
        Ok(Reading { time, flows: flows.collect() })
    }
}

impl Readers {
    fn get(&mut self, tuning: &Tuning, question: &Question) -> Result<&mut Reader, ReadError> {
        let place = if question.only.is_some() {
            &mut self.narrow
        } else if question.fields.is_empty() {
            &mut self.standard
        } else {
            &mut self.with_fields
        };
        if place.as_ref().is_none_or(|reader| reader.view.question != *question) {
            *place = Some(Reader::load(tuning, question)?);
        }
        Ok(place.as_mut().expect("there is one now"))
    }
}

impl Reader {
    fn load(tuning: &Tuning, question: &Question) -> Result<Self, ReadError> {
        let btf = KernelBtf::read()?;
        let is_wanted = |instrument: &&Instrument| {
            let name = instrument.name;
            question.only.as_ref().is_none_or(|only| only.iter().any(|own| own == name))
        };
        let instruments: Vec<_> = STANDARD.iter().filter(is_wanted).collect();
        let fields = Fields::of(&btf, &instruments, &question.fields)?;
        let kernel = tuning.instruments_reader(&btf, &fields.members)?;
        let names = instruments.iter().map(|instrument| instrument.name.to_owned());
        let names = names.chain(question.fields.iter().cloned()).collect();
        let question = question.clone();
        let view = View { question, instruments, fields, names, tick_ms: tick_ms()? };
        Ok(Self { kernel, others: OfCgroup::default(), view, output: Vec::new() })
    }

    fn read(&mut self) -> Result<(), ReadError> {
        Ok(self.kernel.read(&mut self.output)?)
    }

    /// Reads the connections on no path as well.
    fn read_others(&mut self, tuning: &Tuning) -> Result<(), ReadError> {
        let members = &self.view.fields.members;
        let load = || Ok::<_, ReadError>(tuning.others_reader(&KernelBtf::read()?, members)?);
        let others = self.others.get(tuning.cgroup_id(), load)?;
        Ok(self.kernel.read_others(others, &mut self.output)?)
    }

    fn has_unknown_process(&self) -> bool {
        self.kernel.records(&self.output).any(|record| record.process.pid == 0)
    }
}

impl View {
    fn values(
        &self,
        head: &Head,
        signals: Option<Signals>,
        bytes: &dyn Fn(usize) -> u64,
    ) -> Values {
        let (fields, tick_ms) = (&self.fields.standard, self.tick_ms);
        let seen = Seen { head, signals, fields, bytes, tick_ms };
        let standard = self.instruments.iter().map(|instrument| seen.value(&instrument.origin));
        let asked = self.fields.asked.iter().map(|field| Some(field.number(bytes(field.n))));
        Values::new(Arc::clone(&self.names), standard.chain(asked))
    }
}

fn tick_ms() -> Result<f64, ReadError> {
    Ok(tick().map_err(ReadError::Tick)?.as_secs_f64() * 1e3)
}
