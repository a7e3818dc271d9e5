//! Flows that run are brought under the policy beside the event loop: where there are
//! thousands of network namespaces a pass takes seconds, in which the agent answers.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use wad_tuning::bpf::{BroughtAlong, Tuning, TuningError};

use super::beside::Beside;

/// Passes for the sake of divided buffers take up this part of the time at most, where
/// flows come and go all the time.
const PART: u32 = 4;

/// How far a pass goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// To the flows whose part of divided buffers may be another one.
    Tuned,
    /// To all flows in all network namespaces.
    All,
}

pub type Ended = Result<BroughtAlong, TuningError>;

#[derive(Debug)]
pub struct Adopting {
    pass: Beside<Ended>,
    /// Asked for while a pass was on its way, which may have been past it.
    next: Option<Pass>,
    /// Passes that were asked for.
    asked: u64,
    /// So many of them the pass that is on its way does.
    doing: u64,
    /// It began then.
    begun: Instant,
    /// There is to be no pass before, unless it cannot wait.
    rests_until: Instant,
    /// So many of them are done.
    done: watch::Sender<u64>,
    stop: Arc<AtomicBool>,
}

impl Adopting {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            pass: Beside::idle(),
            next: None,
            asked: 0,
            doing: 0,
            begun: now,
            rests_until: now,
            done: watch::Sender::new(0),
            stop: Arc::default(),
        }
    }

    /// Asks for a pass, after the one that is on its way. Returns its number.
    pub fn ask(&mut self, pass: Pass, tuning: &Arc<Tuning>) -> u64 {
        self.asked += 1;
        self.next = self.next.max(Some(pass));
        self.go_on(tuning);
        self.asked
    }

    /// Starts what has been asked for, unless a pass is on its way.
    fn go_on(&mut self, tuning: &Arc<Tuning>) {
        if self.pass.is_busy() {
            return;
        }
        let Some(pass) = self.next.take() else { return };
        (self.doing, self.begun) = (self.asked, Instant::now());
        let (tuning, stop) = (Arc::clone(tuning), Arc::clone(&self.stop));
        self.pass.start(move || match pass {
            Pass::All => tuning.adopt_running(&stop),
            Pass::Tuned => tuning.divide_running(&stop),
        });
    }

    /// Waits for the end of a pass; for ever where none is on its way.
    pub async fn ended(&mut self) -> Ended {
        self.pass.done().await
    }

    /// Notes that a pass has ended, and starts the next one. Returns how many of those that
    /// were asked for are done.
    pub fn go_on_after(&mut self, tuning: &Arc<Tuning>) -> u64 {
        let done = self.doing;
        self.rests_until = Instant::now() + self.begun.elapsed().saturating_mul(PART - 1);
        self.done.send_replace(done);
        self.go_on(tuning);
        done
    }

    /// Whether there is no pass on its way, nor was until just now.
    pub fn is_at_rest(&self) -> bool {
        !self.pass.is_busy() && self.rests_until <= Instant::now()
    }

    /// Waits until what has been asked for by now is done, but no longer than that.
    pub fn followed(&self, patience: Duration) -> impl Future<Output = ()> + Send + use<> {
        let (asked, mut done) = (self.asked, self.done.subscribe());
        async move {
            // An error is the end of the agent.
            let _ = timeout(patience, done.wait_for(|done| *done >= asked)).await;
        }
    }

    /// Breaks off the pass that is on its way.
    pub async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.pass.is_busy() {
            let _ = self.pass.done().await;
        }
    }
}
