//! Work that takes long is done beside the event loop, on a thread of its own, one piece
//! after the other.

use tokio::task::{self, JoinHandle};

/// A place for one piece of work at a time.
#[derive(Debug)]
pub struct Beside<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Beside<T> {
    pub const fn idle() -> Self {
        Self(None)
    }

    pub const fn is_busy(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a piece of work, where none is on its way.
    pub fn start(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        if !self.is_busy() {
            self.0 = Some(task::spawn_blocking(work));
        }
    }

    /// Waits until the work is done, and returns what came of it; where there is none,
    /// for ever. Whoever waits no longer may wait again.
    pub async fn done(&mut self) -> T {
        let Some(handle) = &mut self.0 else { return std::future::pending().await };
        let ended = handle.await;
        self.0 = None;
        // It is not aborted by anybody.
        ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn work_is_done_beside_and_told_when_it_is_done() {
        let mut beside = Beside::idle();
        let soon = Duration::from_millis(10);
        assert!(timeout(soon, beside.done()).await.is_err());
        let (go, wait) = mpsc::channel();
        beside.start(move || wait.recv().unwrap());
        assert!(timeout(soon, beside.done()).await.is_err() && beside.is_busy());
        beside.start(|| 0);
        go.send(5).unwrap();
        assert_eq!(beside.done().await, 5);
        assert!(!beside.is_busy());
        beside.start(|| 7);
        assert_eq!(beside.done().await, 7);
    }
}
