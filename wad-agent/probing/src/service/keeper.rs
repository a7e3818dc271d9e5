//! Rows go to the archive through a queue, by a thread of its own: a disk may take long.

use std::{io, sync::Arc, thread, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing::warn;
use wad_toolbox::seldom::Seldom;

use crate::{archive::Archive, row::Row};

/// Rows that wait for the disk.
const QUEUE: usize = 4_096;
/// Where the queue is full, its disk gets so long before rows are lost.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct Keeper {
    rows: mpsc::Sender<Row>,
    ended: oneshot::Receiver<()>,
    said: Seldom,
}

impl Keeper {
    pub fn start(archive: Arc<Archive>) -> io::Result<Self> {
        let (rows, mut kept) = mpsc::channel(QUEUE);
        let (end, ended) = oneshot::channel();
        let keep = move || {
            while let Some(row) = kept.blocking_recv() {
                archive.append(&row);
            }
            // Nobody may be waiting.
            let _ = end.send(());
        };
        thread::Builder::new().name("probe-archive".to_owned()).spawn(keep)?;
        Ok(Self { rows, ended, said: Seldom::new() })
    }

    pub async fn keep(&mut self, row: Row) {
        let kept = timeout(PATIENCE, self.rows.send(row)).await;
        if !matches!(kept, Ok(Ok(()))) && self.said.may_say() {
            warn!("results of probes are lost: the archive takes too long to write them");
        }
    }

    /// Waits a moment until all rows are kept.
    pub async fn finish(self, grace: Duration) {
        drop(self.rows);
        if timeout(grace, self.ended).await.is_err() {
            warn!("the last results of probes are lost: it takes too long to write them");
        }
    }
}
