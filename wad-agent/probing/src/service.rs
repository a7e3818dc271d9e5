//! The service: it runs tools when the schedule says so, and keeps a row of each period.
//!
//! A thread of its own does all of it, and another one writes to the archive. So neither a
//! peer that is dead nor a disk that is slow holds up anything but itself.

mod answer;
mod keeper;
mod outlook;
mod reserved;
mod run;
mod stopped;
#[cfg(test)]
mod tests;
mod work;

use std::{fs, io, path::Path, pin::Pin, sync::Arc, thread, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use wad_policy::{
    config::{Answering, Metric, Probe},
    reservation::{Question, Reply},
};

pub use self::outlook::Outlook;
use self::{
    answer::{bind, keep_answering},
    keeper::Keeper,
    outlook::Told,
    stopped::Before,
    work::Work,
};
use crate::{
    answers::Results,
    archive::{Archive, Bounds},
    schedule::Chance,
    tools::{Answerer, AnswererError},
};

/// Says whether a path's own flows have shown this within so long.
pub type Passive = Arc<dyn Fn(&str, Metric, Duration) -> bool + Send + Sync>;

/// Asks a peer, by its name in the file, about a run; the error says why there is no answer.
pub type AskPeer = Arc<dyn Fn(Arc<str>, Question) -> Replying + Send + Sync>;
pub type Replying = Pin<Box<dyn Future<Output = Result<Reply, String>> + Send>>;

/// The service asks these.
#[derive(Clone)]
pub struct Others {
    pub passive: Passive,
    pub peers: AskPeer,
}

/// Rows get this long to be kept at the end.
const GRACE: Duration = Duration::from_secs(2);
/// Threads that look names up, and ask what there is, at most.
const BLOCKING_THREADS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("cannot start what probes paths")]
    Start(#[source] io::Error),
    #[error("[probe]")]
    Answer(#[from] AnswererError),
}

/// A service that runs, of tasks that may change.
pub struct Service {
    runtime: Handle,
    orders: mpsc::UnboundedSender<Order>,
    ended: oneshot::Receiver<()>,
    archive: Arc<Archive>,
    results: Arc<Results>,
    told: Told,
    /// The answers to other hosts, and the task that gives them.
    answering: Option<(Answering, JoinHandle<()>)>,
}

/// A change that can be put in force. If it is not, nothing has changed.
pub struct Ready {
    probe: Probe,
    answerer: Next,
}

enum Next {
    AsBefore,
    Nothing,
    /// Another one, whose address is free.
    This(Answering, Answerer),
    /// One at the same address, which that before it leaves to it.
    Here(Answering),
}

/// Says which tasks are meant: by a task's, a path's or a host's name.
pub type Names = Vec<String>;

/// A run that was asked for, and by which period its row is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub task: String,
    pub period: Timestamp,
    /// Its row is there after so long at the latest.
    pub within_seconds: f64,
}

/// Runs that were asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedRuns {
    pub asked: Vec<Asked>,
}

enum Order {
    Tasks(Probe),
    Ask(Names, oneshot::Sender<Vec<Asked>>),
    /// A peer asks.
    Agree(String, Question, oneshot::Sender<Reply>),
    End,
}

/// Asks the service from elsewhere.
#[derive(Clone)]
pub struct Asker {
    orders: mpsc::UnboundedSender<Order>,
    told: Told,
}

impl Service {
    /// Starts without a task. The archive is at this file.
    pub fn start(
        file: &Path,
        probe: &Probe,
        seed: Chance,
        others: Others,
    ) -> Result<Self, ServiceError> {
        let archive = Arc::new(Archive::open(file, bounds(probe)));
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build();
        let runtime = runtime.map_err(ServiceError::Start)?;
        let handle = runtime.handle().clone();
        let (orders, heard) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let keeper = Keeper::start(Arc::clone(&archive)).map_err(ServiceError::Start)?;
        let (before, told) = (Arc::clone(&archive), Told::default());
        let outlook = told.clone();
        let run = move || {
            // Where it cannot be read, that is said by whoever writes.
            let before = Before::new(&before.latest().unwrap_or_default());
            let work = Work::new(seed, (others, keeper), before, outlook);
            runtime.block_on(work.run(heard));
            // A look-up of a name may take long: nobody waits for it any more.
            runtime.shutdown_background();
            // Nobody may be waiting.
            let _ = end.send(());
        };
        thread::Builder::new().name("probe".to_owned()).spawn(run).map_err(ServiceError::Start)?;
        let counted = told.clone();
        let reservations = Box::new(move || counted.get().reservations);
        let results = Arc::new(Results::new(Arc::clone(&archive), reservations));
        Ok(Self { runtime: handle, orders, ended, archive, results, told, answering: None })
    }

    /// Takes what the configuration needs of the host.
    pub fn prepare(&self, probe: &Probe) -> Result<Ready, ServiceError> {
        let before = self.answering.as_ref().map(|(answering, _)| answering);
        let answerer = match &probe.answer {
            answer if answer.as_ref() == before => Next::AsBefore,
            None => Next::Nothing,
            Some(answering) if before.is_some_and(|before| before.address == answering.address) => {
                Next::Here(answering.clone())
            }
            Some(answering) => {
                let _guard = self.runtime.enter();
                Next::This(answering.clone(), bind(answering)?)
            }
        };
        Ok(Ready { probe: probe.clone(), answerer })
    }

    /// Runs these tasks from now on, and no others.
    pub fn put_in_force(&mut self, Ready { probe, answerer }: Ready) {
        self.archive.set_bounds(bounds(&probe));
        self.results.set_tasks(probe.tasks.iter().map(|task| task.name.clone()));
        self.answering = match answerer {
            Next::AsBefore => self.answering.take(),
            Next::Nothing => {
                self.leave();
                None
            }
            Next::This(answering, answerer) => {
                self.leave();
                let answer = keep_answering(answering.clone(), Some(answerer), None);
                Some((answering, self.runtime.spawn(answer)))
            }
            Next::Here(answering) => {
                let before = self.leave();
                let answer = keep_answering(answering.clone(), None, before);
                Some((answering, self.runtime.spawn(answer)))
            }
        };
        // It hears as long as it is there.
        let _ = self.orders.send(Order::Tasks(probe));
    }

    /// Answers nobody any more. Returns what is about to end.
    fn leave(&mut self) -> Option<JoinHandle<()>> {
        let (_, serving) = self.answering.take()?;
        serving.abort();
        Some(serving)
    }

    /// Returns what is known, for whoever answers questions.
    pub fn results(&self) -> Arc<Results> {
        Arc::clone(&self.results)
    }

    pub fn asker(&self) -> Asker {
        Asker { orders: self.orders.clone(), told: self.told.clone() }
    }

    /// Ends all that runs, and waits until its rows are kept.
    pub async fn finish(mut self) {
        self.leave();
        let _ = self.orders.send(Order::End);
        let _ = timeout(2 * GRACE, self.ended).await;
    }
}

impl Asker {
    /// Has the tasks run now that are of these names, each as soon as its locks are free.
    pub async fn ask(&self, names: Names) -> Vec<Asked> {
        let (answer, asked) = oneshot::channel();
        // Where the service ends, there is nothing to ask for.
        let _ = self.orders.send(Order::Ask(names, answer));
        asked.await.unwrap_or_default()
    }

    /// Answers a peer that asks about a run of its own.
    pub async fn agree(&self, peer: String, question: Question) -> Reply {
        let (answer, reply) = oneshot::channel();
        // Where the service ends, nobody keeps locks.
        let _ = self.orders.send(Order::Agree(peer, question, answer));
        reply.await.unwrap_or(Reply::NoService)
    }

    /// Returns what the service does, and is going to do.
    #[must_use]
    pub fn outlook(&self) -> Outlook {
        self.told.get()
    }
}

/// Tries whether other hosts could be answered as a configuration has it, where no service
/// answers yet. Must be called within a tokio runtime.
pub fn try_answer(probe: &Probe) -> Result<(), ServiceError> {
    // It is left again at once.
    probe.answer.as_ref().map(bind).transpose()?;
    Ok(())
}

/// Returns what periods of this host begin by: neither two hosts nor two instances have the
/// same, and a restart changes nothing.
pub fn seed(instance: &str) -> Chance {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let (machine, name) = (read("/etc/machine-id"), read("/proc/sys/kernel/hostname"));
    Chance::new(0).of_text(machine.trim()).of_text(name.trim()).of_text(instance)
}

const fn bounds(probe: &Probe) -> Bounds {
    Bounds { keep: probe.keep, max_bytes: probe.max_archive_bytes }
}
