//! The pods of this node: from the kubelet by its socket, or else from the API server. What
//! is known stays while neither answers, and one goes on where the other has left off.

mod api_server;
mod board;
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
use wad_toolbox::{back_off::back_off, causes::told, chance::chance};

use self::{api_server::ApiServer, board::Board};

/// The API server is asked when the kubelet has not answered for so long, or up to twice as
/// long: a kubelet that is started again is soon back, and those of many nodes may be.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest wait before the kubelet is tried again. It is on this host.
const MOST_BACK_OFF: Duration = Duration::from_secs(5);

/// A watch that has held for so long is no failure when it ends.
const HELD: Duration = Duration::from_secs(10);

/// Where pods are learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Kubelet,
    ApiServer,
}

/// Holds what is known of the node's pods at the moment.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub pods: Arc<Pods>,
    /// Where they come from; none where neither answers (then `pods` holds what was known last).
    pub origin: Option<Origin>,
    /// Why neither answers, one sentence with the cure; none if one does.
    pub lacking: Option<String>,
}

/// Follows the pods of this node from now on, beside the event loop; ends when the receiver is
/// dropped. Needs a tokio runtime.
pub fn follow(settings: &KubernetesSettings) -> watch::Receiver<Known> {
    let api_server = ApiServer::new(settings, |name| env::var(name).ok());
    start(Follower {
        socket: settings.kubelet_socket.clone(),
        api_server: api_server.map_err(|error| told(&error)),
        patience: PATIENCE,
    })
}

/// Reads what a kubelet or an API server sends, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    kubelet::fuzz(bytes);
    objects::fuzz(bytes);
}

fn start(follower: Follower) -> watch::Receiver<Known> {
    let (board, known) = Board::new();
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
    /// The API server, or why it can't be asked.
    api_server: Result<ApiServer, String>,
    patience: Duration,
}

impl Follower {
    async fn follow(&self, board: &Board) {
        let mut failures = 0;
        loop {
            let (mut watch, pods) = tokio::select! {
                begun = self.kubelet(board, &mut failures) => begun,
                () = self.instead(board) => return,
            };
            let begun = Instant::now();
            board.takes(Origin::Kubelet, pods);
            let error = watch.follow(board).await;
            board.fails(Origin::Kubelet, told(&error));
            failures = if begun.elapsed() < HELD { failures + 1 } else { 0 };
        }
    }

    /// Tries until the kubelet has told of all pods that there are.
    async fn kubelet(&self, board: &Board, failures: &mut u32) -> (kubelet::Watch, Pods) {
        loop {
            if *failures > 0 {
                sleep(back_off(*failures - 1).min(MOST_BACK_OFF)).await;
            }
            match kubelet::begin(&self.socket).await {
                Ok(begun) => return begun,
                Err(error) => board.fails(Origin::Kubelet, told(&error)),
            }
            *failures = failures.saturating_add(1);
        }
    }

    /// Asks the API server for as long as the kubelet does not answer. Never ends.
    async fn instead(&self, board: &Board) {
        match &self.api_server {
            Err(why) => board.fails(Origin::ApiServer, why.clone()),
            Ok(api_server) => {
                sleep(self.patience.mul_f64(1.0 + chance())).await;
                api_server.follow(board).await;
            }
        }
        std::future::pending().await
    }
}
