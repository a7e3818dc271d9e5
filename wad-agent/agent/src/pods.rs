//! The pods of this node: from the API server, where that may be asked, and from the kubelet
//! by its socket. What is known stays while neither answers, also across a restart.

mod api_server;
mod board;
mod cache;
mod grpc;
mod kubelet;
mod objects;
mod pod;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::{env, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use wad_policy::{config::KubernetesSettings, pod::Pods};
use wad_toolbox::{back_off::back_off, causes::told};

pub use self::cache::{Cache, PodCgroups, of_pods};
use self::{api_server::ApiServer, board::Board};

/// Longest wait before the kubelet is tried again. It is on this host.
const MOST_BACK_OFF: Duration = Duration::from_secs(5);

/// The kubelet is asked so often for the labels of pods, which its watch does not tell of until
/// something else of a pod changes (it sends what its `status_manager` has news of). Each time is
/// a line of its log.
const LABELS_INTERVAL: Duration = Duration::from_secs(15);

/// A watch that has held for so long is no failure when it ends.
const HELD: Duration = Duration::from_secs(10);

/// Where pods are learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It goes first where it answers: it tells at once of labels that change.
    ApiServer,
    Kubelet,
}

/// Holds what is known of the node's pods at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub pods: Arc<Pods>,
    /// Where they come from; none where neither answers (then `pods` holds what was known last).
    pub origin: Option<Origin>,
    /// Why neither answers, one sentence with the cure; none if one does, or may still.
    pub lacking: Option<String>,
}

/// Follows the pods of this node from now on, beside the event loop; ends when the receiver is
/// dropped. Those that were known before hold until somebody answers. Needs a tokio runtime.
pub fn follow(settings: &KubernetesSettings, before: Arc<Pods>) -> watch::Receiver<Known> {
    let api_server = ApiServer::new(settings, |name| env::var(name).ok());
    let follower = Follower {
        socket: settings.kubelet_socket.clone(),
        labels_interval: LABELS_INTERVAL,
        api_server: api_server.map_err(|error| told(&error)),
    };
    start(follower, before)
}

/// Reads what a kubelet or an API server sends, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    kubelet::fuzz(bytes);
    objects::fuzz(bytes);
}

fn start(follower: Follower, before: Arc<Pods>) -> watch::Receiver<Known> {
    let (board, known) = Board::new(before);
    tokio::spawn(async move {
        tokio::select! {
            () = board.is_left() => {}
            () = follower.follow(&board) => {}
        }
    });
    known
}

/// Follows both.
struct Follower {
    socket: PathBuf,
    labels_interval: Duration,
    /// The API server, or why it can't be asked.
    api_server: Result<ApiServer, String>,
}

impl Follower {
    /// Follows both for as long as somebody waits for that.
    async fn follow(&self, board: &Board) {
        tokio::join!(self.follow_kubelet(board), self.follow_api_server(board));
    }

    async fn follow_kubelet(&self, board: &Board) {
        let mut failures = 0;
        loop {
            let mut has_held = false;
            let error = match kubelet::begin(&self.socket).await {
                Ok((mut watch, pods)) => {
                    board.takes(Origin::Kubelet, pods);
                    let begun = Instant::now();
                    let error = tokio::select! {
                        error = watch.follow(board) => error,
                        never = kubelet::follow_labels(&self.socket, self.labels_interval, board) => {
                            match never {}
                        }
                    };
                    has_held = begun.elapsed() >= HELD;
                    error
                }
                Err(error) => error,
            };
            board.fails(Origin::Kubelet, told(&error));
            if has_held {
                failures = 0;
            } else {
                sleep(back_off(failures).min(MOST_BACK_OFF)).await;
                failures = failures.saturating_add(1);
            }
        }
    }

    async fn follow_api_server(&self, board: &Board) {
        match &self.api_server {
            Err(why) => board.fails(Origin::ApiServer, why.clone()),
            Ok(api_server) => api_server.follow(board).await,
        }
    }
}
