//! Learned paths are kept across restarts as JSON. Whatever stands there, nothing comes of it
//! that could not have been learned.

use ipnet::IpNet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wad_policy::{
    config::{AutoBuffers, Learn, is_rate, is_rtt},
    learned::LearnedPath,
};

use super::{Known, Learner};
use crate::suggest::shortest;

/// It rises when a reader would have to know.
const VERSION: u32 = 1;
/// Evidence is two sentences.
const MOST_EVIDENCE_BYTES: usize = 500;

/// Says why what was kept is not taken.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("it is of version {found}, and this is {VERSION}")]
    Version { found: u32 },
    #[error("it has {count} paths, and {} can be learned", Learn::MOST_PATHS)]
    TooMany { count: usize },
    #[error("path {place} of it can not have been learned")]
    Impossible { place: usize },
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Deserialize, Serialize)]
struct Kept {
    version: u32,
    paths: Vec<KeptPath>,
}

#[derive(Deserialize, Serialize)]
struct KeptPath {
    remote: IpNet,
    bits_per_second: f64,
    rtt_seconds: f64,
    sndbuf: bool,
    rcvbuf: bool,
    evidence: String,
    /// Seconds since 1970, as the next.
    used_at: i64,
    changed_at: i64,
}

/// Returns what is to be kept.
///
/// # Panics
/// Never: texts and finite numbers are JSON.
#[must_use]
pub fn bytes(learner: &Learner) -> Vec<u8> {
    let kept = learner.known().map(|known| {
        let Known { path, evidence, used_at, changed_at } = known;
        KeptPath {
            remote: path.remote,
            bits_per_second: path.bits_per_second,
            rtt_seconds: path.rtt_seconds,
            sndbuf: path.buffers.sndbuf,
            rcvbuf: path.buffers.rcvbuf,
            evidence: evidence.clone(),
            used_at: used_at.as_second(),
            changed_at: changed_at.as_second(),
        }
    });
    serde_json::to_vec(&Kept { version: VERSION, paths: kept.collect() })
        .expect("texts and finite numbers are JSON")
}

/// Reads what was kept, all of it or nothing.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Learner, KeptError> {
    let Version { version } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return Err(KeptError::Version { found: version });
    }
    let Kept { paths, .. } = serde_json::from_slice(bytes)?;
    if paths.len() > Learn::MOST_PATHS {
        return Err(KeptError::TooMany { count: paths.len() });
    }
    let mut learner = Learner::default();
    for (place, path) in paths.into_iter().enumerate() {
        let known = restore(path).filter(|known| !learner.overlaps(known.path.remote));
        let known = known.ok_or(KeptError::Impossible { place })?;
        learner.known.insert(known.path.remote, known);
    }
    Ok(learner)
}

impl Learner {
    fn overlaps(&self, remote: IpNet) -> bool {
        self.known.keys().any(|other| other.contains(&remote) || remote.contains(other))
    }
}

fn restore(kept: KeptPath) -> Option<Known> {
    let KeptPath { remote, bits_per_second, rtt_seconds, sndbuf, rcvbuf, evidence, .. } = kept;
    let address = remote.addr();
    let is_possible = remote.trunc() == remote
        && remote.prefix_len() >= shortest(address)
        && address.to_canonical() == address
        && is_rate(bits_per_second)
        && is_rtt(rtt_seconds)
        && (sndbuf || rcvbuf)
        && evidence.len() <= MOST_EVIDENCE_BYTES
        && !evidence.contains(char::is_control);
    let time = |seconds| Timestamp::from_second(seconds).ok();
    is_possible.then_some(())?;
    Some(Known {
        path: LearnedPath {
            remote,
            bits_per_second,
            rtt_seconds,
            buffers: AutoBuffers { sndbuf, rcvbuf, autotune: false },
        },
        evidence,
        used_at: time(kept.used_at)?,
        changed_at: time(kept.changed_at)?,
    })
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(content: &[u8]) {
    if let Ok(learner) = parse(content) {
        assert!(parse(&bytes(&learner)).expect("it is as it is written") == learner);
    }
}
