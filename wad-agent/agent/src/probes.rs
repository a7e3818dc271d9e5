//! The agent measures paths itself (`[probe]`): here is the service that does, as long as the
//! configuration has it, and where its results are asked for.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, SystemTime},
};

use anyhow::Result;
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{any, post},
};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use wad_policy::{
    config::Probe,
    reservation::{Question, Reply},
};
use wad_probing::{
    answers::{self, History, OwnProbes, Results},
    archive::Query,
    service::{
        self, AskPeer, AskedRuns, Asker, Names, Others, Outlook, Passive, Ready, Service, seed,
    },
};
use wad_toolbox::{document::Document, mutex::locked, own_folder};

use crate::measured::Board;

/// The path at which runs are asked for.
pub const NOW: &str = "/v1/probe/now";

/// The file that has the results of an instance.
pub fn archive(state_dir: &Path, instance: &str) -> PathBuf {
    state_dir.join(format!("probes-{instance}.sqlite"))
}

/// The service, while there is one.
pub struct Probes {
    archive: PathBuf,
    instance: String,
    flows: Arc<OnceLock<Arc<Mutex<Board>>>>,
    peers: AskPeer,
    service: Option<Service>,
    desk: Desk,
    own: OwnProbes,
}

/// Where questions about probes are answered, whatever the configuration says meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Desk(Arc<Mutex<Option<Open>>>);

#[derive(Clone)]
struct Open {
    results: Arc<Results>,
    asker: Asker,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Open")
    }
}

/// A change that can be put in force. If it is not, nothing has changed.
pub enum Next {
    Nothing,
    Change(Ready),
    Start(Box<Service>, Ready),
}

impl Probes {
    /// Makes it without a service. Peers are asked by this to agree to runs.
    pub fn new(archive: PathBuf, instance: &str, peers: AskPeer) -> Self {
        let (instance, desk) = (instance.to_owned(), Desk::default());
        let (flows, own) = (Arc::default(), OwnProbes::default());
        Self { archive, instance, flows, peers, service: None, desk, own }
    }

    /// Has the service know what flows show. Without, it knows of none.
    pub fn see_flows(&self, board: &Arc<Mutex<Board>>) {
        // There is one for all the time of an agent.
        let _ = self.flows.set(Arc::clone(board));
    }

    pub fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Returns where the results are for sources that ask this agent.
    pub const fn own(&self) -> &OwnProbes {
        &self.own
    }

    /// Has all that it takes to measure so, and measures nothing else yet.
    pub fn prepare(&self, probe: Option<&Probe>) -> Result<Next> {
        let Some(probe) = probe else { return Ok(Next::Nothing) };
        if let Some(service) = &self.service {
            return Ok(Next::Change(service.prepare(probe)?));
        }
        // At the first start nothing has made it yet.
        self.archive.parent().map_or(Ok(()), own_folder::make_private)?;
        let flows = Arc::clone(&self.flows);
        let passive: Passive = Arc::new(move |path, metric, within| {
            let board = flows.get().map(|board| locked(board).clone());
            board.is_some_and(|board| board.is_shown(path, metric, within, SystemTime::now()))
        });
        let others = Others { passive, peers: Arc::clone(&self.peers) };
        let service = Service::start(&self.archive, probe, seed(&self.instance), others)?;
        let ready = service.prepare(probe)?;
        Ok(Next::Start(Box::new(service), ready))
    }

    /// Tries whether it could measure so, and changes nothing. Must be called within a tokio
    /// runtime.
    pub fn try_out(&self, probe: Option<&Probe>) -> Result<()> {
        match (probe, &self.service) {
            (None, _) => {}
            (Some(probe), Some(service)) => drop(service.prepare(probe)?),
            (Some(probe), None) => service::try_answer(probe)?,
        }
        Ok(())
    }

    /// Measures so from now on. Must be called within a tokio runtime.
    pub fn put_in_force(&mut self, next: Next) {
        match (next, &mut self.service) {
            (Next::Nothing, service) => {
                *locked(&self.desk.0) = None;
                self.own.set(None);
                if let Some(service) = service.take() {
                    tokio::spawn(service.finish());
                }
            }
            (Next::Change(ready), service) => {
                service.as_mut().expect("it was prepared").put_in_force(ready);
            }
            (Next::Start(mut started, ready), service) => {
                started.put_in_force(ready);
                let open = Open { results: started.results(), asker: started.asker() };
                self.own.set(Some(Arc::clone(&open.results)));
                *locked(&self.desk.0) = Some(open);
                *service = Some(*started);
            }
        }
    }

    /// Ends what runs, and waits a moment until all of it is kept.
    pub async fn finish(self) {
        if let Some(service) = self.service {
            service.finish().await;
        }
    }
}

impl Desk {
    /// Returns what the sockets serve that only show.
    pub fn queries(&self) -> Router {
        let desk = self.clone();
        let answer = move |request| desk.answer(request, answers::queries);
        [answers::RUNS, answers::LATEST, answers::PATHS, answers::HISTORY]
            .into_iter()
            .fold(Router::new(), |router, path| router.route(path, any(answer.clone())))
    }

    /// Returns what the address of `[probe]` serves.
    pub fn page(&self) -> Router {
        let desk = self.clone();
        Router::new().fallback(move |request| desk.answer(request, answers::router))
    }

    /// Returns what takes orders.
    pub fn orders(&self) -> Router {
        let desk = self.clone();
        let now = move |Json(names): Json<Names>| desk.run_now(names);
        Router::new().route(NOW, post(now))
    }

    /// Returns what the service does, while there is one.
    pub fn outlook(&self) -> Option<Outlook> {
        Some(self.open()?.asker.outlook())
    }

    /// Answers a peer that asks about a run of its own.
    pub async fn agree(self, peer: String, question: Question) -> Reply {
        match self.open() {
            Some(Open { asker, .. }) => asker.agree(peer, question).await,
            None => Reply::NoService,
        }
    }

    /// Returns what probes have found out of a path in the last week, while there is a service.
    pub async fn last_week(&self, path: &str) -> Option<History> {
        const WEEK: Duration = Duration::from_secs(7 * 86_400);
        /// Far more than the most buckets take.
        const MOST_BYTES: usize = 16 << 20;
        self.open()?;
        let query = Query {
            path: Some(path.to_owned()),
            since: Timestamp::now().checked_sub(WEEK).ok(),
            ..Query::default()
        };
        let text = answers::query_text(&query, Some(answers::bucket(WEEK)));
        let request =
            Request::get(format!("{}{text}", answers::HISTORY)).body(Body::empty()).ok()?;
        let answer = self.clone().answer(request, answers::queries).await;
        let answer = to_bytes(answer.into_body(), MOST_BYTES).await.ok()?;
        serde_json::from_slice(&answer).ok()
    }

    async fn answer(self, request: Request, router: fn(Arc<Results>) -> Router) -> Response {
        let Some(Open { results, .. }) = self.open() else { return closed() };
        let Ok(answer) = TowerToHyperService::new(router(results)).call(request).await;
        answer
    }

    async fn run_now(self, names: Names) -> Response {
        let Some(Open { asker, .. }) = self.open() else { return closed() };
        let asked = asker.ask(names).await;
        Json(Document::new(AskedRuns { asked })).into_response()
    }

    fn open(&self) -> Option<Open> {
        locked(&self.0).clone()
    }
}

fn closed() -> Response {
    (StatusCode::NOT_FOUND, "the configuration has no [probe]\n").into_response()
}
