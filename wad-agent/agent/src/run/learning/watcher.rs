//! Looks at connections, and at times judges what they got.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ipnet::IpNet;
use tracing::warn;
use wad_instruments::Reading;
use wad_observing::{
    diagnose::FIELDS,
    reading::{Filter, Instruments, ReadError},
    suggest::{Found, Watch},
};
use wad_policy::{learned::NAME_PREFIX, tuning_plan::KernelBuffers};
use wad_toolbox::{causes::told, seldom::Seldom};
use wad_tuning::bpf::Tuning;

/// So often connections are judged.
const JUDGE_INTERVAL: Duration = Duration::from_secs(10);
/// Nothing counts that was seen longer ago than this.
const WINDOW: Duration = Duration::from_secs(300);
/// So many connections are looked at, at most; one takes some kB until the next look.
const MOST_CONNECTIONS: usize = 16_384;

/// Connections showed this.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub found: Vec<Found>,
    /// Learned paths that had connections.
    pub used: Vec<IpNet>,
}

/// Watches connections on no path, and on learned ones.
pub struct Watcher {
    /// Readers of its own: those of others are for other questions.
    instruments: Option<Instruments>,
    watch: Watch,
    used: BTreeSet<IpNet>,
    judged_at: Option<Instant>,
    /// The time from which on what was seen counts.
    since: Instant,
    /// That connections cannot be read.
    failed: Seldom,
}

impl Default for Watcher {
    fn default() -> Self {
        Self {
            instruments: None,
            watch: Watch::of_all(),
            used: BTreeSet::new(),
            judged_at: None,
            since: Instant::now(),
            failed: Seldom::new(),
        }
    }
}

impl Watcher {
    /// Looks, and returns what was seen if it is time to judge it. It may block for tens of
    /// milliseconds where there are thousands of connections.
    pub fn look(
        &mut self,
        tuning: &Arc<Tuning>,
        learned: &[IpNet],
        kernel: KernelBuffers,
    ) -> Option<Seen> {
        let instruments =
            self.instruments.get_or_insert_with(|| Instruments::new(Arc::clone(tuning)));
        match read(instruments) {
            Ok(reading) => self.take(reading, learned),
            Err(error) => {
                if self.failed.may_say() {
                    warn!("nothing is learned, as connections cannot be read: {}", told(&error));
                }
                return None;
            }
        }
        let now = Instant::now();
        let judged_at = *self.judged_at.get_or_insert(now);
        if now.duration_since(judged_at) < JUDGE_INTERVAL {
            return None;
        }
        self.judged_at = Some(now);
        let found = self.watch.found(learned, kernel);
        let used = std::mem::take(&mut self.used).into_iter().collect();
        if now.duration_since(self.since) >= WINDOW {
            self.since = now;
            self.watch.forget_all();
        }
        Some(Seen { found, used })
    }

    /// Forgets what was seen of connections to a prefix: other buffers are in force for it.
    pub fn forget(&mut self, remote: IpNet) {
        self.watch.forget(remote);
    }

    fn take(&mut self, mut reading: Reading, learned: &[IpNet]) {
        reading.flows.retain(|flow| {
            if flow.path.is_empty() {
                return true;
            }
            // In their order.
            let remote: Option<IpNet> =
                flow.path.strip_prefix(NAME_PREFIX).and_then(|remote| remote.parse().ok());
            match remote.filter(|remote| learned.binary_search(remote).is_ok()) {
                Some(remote) => {
                    self.used.insert(remote);
                    true
                }
                None => false,
            }
        });
        reading.flows.truncate(MOST_CONNECTIONS);
        self.watch.look(reading);
    }
}

/// Reads all connections, without whose they are, and without the fields that this kernel
/// lacks.
fn read(instruments: &Instruments) -> Result<Reading, ReadError> {
    let all = Filter { all: true, ..Filter::default() };
    let with_fields = Filter { fields: FIELDS.map(str::to_owned).to_vec(), ..all.clone() };
    match instruments.read_without_owners(&with_fields) {
        Err(error) if error.is_of_question() => instruments.read_without_owners(&all),
        reading => reading,
    }
}
