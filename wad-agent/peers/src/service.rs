//! The service: peers are asked and answered, and the files are looked at, by a thread of its
//! own. So whatever comes from outside holds up nothing but itself.

mod keeper;

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use wad_policy::config::Peers;

use self::keeper::{Keeper, Looked};
use crate::{
    ask::{self, Asker},
    board::Board,
    common::{Common, InForce, Reserve, Say},
    serve::Server,
};

/// All that is under way gets so long at the end.
const GRACE: Duration = Duration::from_secs(1);
/// Threads that read files, and gather what is said, at most.
const BLOCKING_THREADS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("cannot start what talks with peers")]
    Start(#[source] io::Error),
    #[error("cannot listen at {address}; see [peers] listen")]
    Listen { address: SocketAddr, source: io::Error },
}

/// A service that runs, of peers that may change.
pub struct Service {
    runtime: Handle,
    orders: mpsc::UnboundedSender<Order>,
    ended: oneshot::Receiver<()>,
    common: Arc<Common>,
    /// The address that is listened at, as the file has it.
    listens: Option<SocketAddr>,
}

/// A change that can be put in force. If it is not, nothing has changed.
pub struct Ready {
    settings: Peers,
    server: Next,
    looked: Looked,
}

enum Next {
    AsBefore,
    Nothing,
    This(Server),
}

enum Order {
    Change(Box<Ready>),
    End,
}

impl Service {
    /// Starts without a peer. What is heard goes to the board, what is said comes from `say`,
    /// and questions about runs are answered by `reserve`.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn start(say: Say, reserve: Reserve, board: Board) -> Result<Self, ServiceError> {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(BLOCKING_THREADS).build();
        let runtime = runtime.map_err(ServiceError::Start)?;
        let handle = runtime.handle().clone();
        let common = Arc::new(Common::new(say, reserve, board));
        let (orders, told) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let (server, asking) = (JoinSet::new(), JoinSet::new());
        let work = Work { common: Arc::clone(&common), server, asking };
        let run = move || {
            runtime.block_on(work.run(told));
            // A look-up of a name may take long: nobody waits for it any more.
            runtime.shutdown_background();
            // Nobody may be waiting.
            let _ = end.send(());
        };
        thread::Builder::new().name("peers".to_owned()).spawn(run).map_err(ServiceError::Start)?;
        Ok(Self { runtime: handle, orders, ended, common, listens: None })
    }

    /// Takes what the configuration needs of the host. Files that cannot be used are no reason
    /// to refuse it: they are looked at again, and until then no peer is heard.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub fn prepare(&self, settings: &Peers) -> Result<Ready, ServiceError> {
        let server = match settings.listen {
            listen if listen == self.listens => Next::AsBefore,
            None => Next::Nothing,
            Some(address) => {
                let _guard = self.runtime.enter();
                let bound = Server::bind(address);
                Next::This(bound.map_err(|source| ServiceError::Listen { address, source })?)
            }
        };
        let looked = Looked::at(settings);
        Ok(Ready { settings: settings.clone(), server, looked })
    }

    /// Talks with these peers from now on, and with no others.
    pub fn put_in_force(&mut self, ready: Ready) {
        self.listens = ready.settings.listen;
        // What others said counts no more, from now on.
        self.common.board.set_peers(Some(&ready.settings));
        // It hears as long as it is there.
        let _ = self.orders.send(Order::Change(Box::new(ready)));
    }

    /// Returns what asks peers about runs.
    pub fn asker(&self) -> Asker {
        Asker::new(&self.common)
    }

    /// Ends all of it, and waits a moment.
    pub async fn finish(self) {
        self.common.board.set_peers(None);
        let _ = self.orders.send(Order::End);
        let _ = timeout(GRACE, self.ended).await;
    }
}

impl Ready {
    /// Returns the address that is listened at next, with the port that it has.
    #[cfg(test)]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.server {
            Next::This(server) => server.address().ok(),
            _ => None,
        }
    }
}

/// All that is under way.
struct Work {
    common: Arc<Common>,
    server: JoinSet<()>,
    asking: JoinSet<()>,
}

impl Work {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut keeper = None;
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Change(ready)) => keeper = Some(self.change(*ready).await),
                    Some(Order::End) | None => break,
                },
                () = Keeper::keep(&mut keeper, &self.common) => {}
            }
        }
        self.asking.shutdown().await;
        self.server.shutdown().await;
    }

    async fn change(&mut self, Ready { settings, server, looked }: Ready) -> Keeper {
        // Whoever is asked now is asked again at once.
        self.asking.shutdown().await;
        let peers = settings.peers.len();
        let (keeper, credentials) = Keeper::new(looked, &self.common.board);
        self.common.set(Some(Arc::new(InForce { settings, credentials })));
        match server {
            Next::AsBefore => {}
            Next::Nothing => self.server.shutdown().await,
            Next::This(server) => {
                self.server.shutdown().await;
                self.server.spawn(server.serve(Arc::clone(&self.common)));
            }
        }
        for place in 0..peers {
            let in_force = self.common.in_force();
            if in_force.is_some_and(|in_force| ask::asked(&in_force, place).is_some()) {
                self.asking.spawn(ask::keep_asking(Arc::clone(&self.common), place));
            }
        }
        keeper
    }
}
