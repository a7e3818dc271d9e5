//! Answers about results: to programs as JSON, to Prometheus, and to other agents. The
//! router is served over HTTP and over the agent's Unix socket by whoever has the service.

mod exporter;
mod question;
mod told;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Semaphore;
use wad_observing::metrics::Format;
use wad_toolbox::{causes::told, document::Document, mutex::locked};

use self::{exporter::Counts, question::Question};
pub use self::{
    exporter::MAX_TASKS,
    question::{HISTORY, LATEST, PATHS, QuestionError, RUNS, query_text},
    told::{Fraction, History, Mtu, PathResults, Paths, Rate, Run, Runs, Task, Tasks, Time},
};
use crate::{
    archive::{Archive, ArchiveError, Latest},
    schedule::Reservations,
};

/// Results are the archive's, of the tasks that there are now.
pub struct Results {
    archive: Arc<Archive>,
    reservations: ReadReservations,
    tasks: Mutex<HashSet<String>>,
}

/// Tells what came of runs that both ends agree to.
pub type ReadReservations = Box<dyn Fn() -> Reservations + Send + Sync>;

/// The results of the service in this process, while there is one. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct OwnProbes(Arc<Mutex<Option<Arc<Results>>>>);

impl OwnProbes {
    /// Says that the service runs, or no more.
    pub fn set(&self, results: Option<Arc<Results>>) {
        *locked(&self.0) = results;
    }

    #[must_use]
    pub fn get(&self) -> Option<Arc<Results>> {
        locked(&self.0).clone()
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Results")
    }
}

impl Results {
    /// Begins without a task.
    #[must_use]
    pub fn new(archive: Arc<Archive>, reservations: ReadReservations) -> Self {
        Self { archive, reservations, tasks: Mutex::default() }
    }

    /// Says which tasks there are: the latest is told of no others.
    pub fn set_tasks(&self, names: impl IntoIterator<Item = String>) {
        *locked(&self.tasks) = names.into_iter().collect();
    }

    /// Returns the latest of each task, by name. A task that was at another host is the one
    /// that has run last.
    pub fn latest(&self) -> Result<Vec<Latest>, ArchiveError> {
        let all = self.archive.latest()?;
        let tasks = locked(&self.tasks);
        let mut latest: HashMap<String, Latest> = HashMap::new();
        for one in all.into_iter().filter(|one| tasks.contains(&one.last.task)) {
            match latest.entry(one.last.task.clone()) {
                Entry::Occupied(held) if held.get().last.period >= one.last.period => {}
                Entry::Occupied(mut held) => _ = held.insert(one),
                Entry::Vacant(free) => _ = free.insert(one),
            }
        }
        let mut latest: Vec<Latest> = latest.into_values().collect();
        latest.sort_by(|one, other| one.last.task.cmp(&other.last.task));
        Ok(latest)
    }

    /// Returns what is known of paths now.
    pub fn paths(&self, now: Timestamp) -> Result<Paths, ArchiveError> {
        Ok(Paths::new(self.latest()?, now))
    }

    fn tasks(&self, now: Timestamp) -> Result<Tasks, ArchiveError> {
        let tasks = self.latest()?.into_iter().map(|latest| Task::new(latest, now)).collect();
        Ok(Tasks { tasks })
    }

    fn runs(&self, question: &Question) -> Result<Runs, ArchiveError> {
        let runs = self.archive.query(&question.query)?.into_iter().map(Run::from).collect();
        Ok(Runs { runs })
    }

    fn history(&self, question: &Question) -> Result<History, ArchiveError> {
        let bucket = question.bucket;
        let buckets = self.archive.history(&question.query, bucket)?;
        Ok(History { bucket_seconds: bucket.as_secs_f64(), buckets })
    }

    fn metrics(&self, format: Format) -> Result<String, AnswerError> {
        let (archive, reservations) = (self.archive.state(), (self.reservations)());
        Ok(exporter::encode(self.latest()?, Counts { archive, reservations }, format)?)
    }
}

#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("cannot write the metrics")]
    Metrics(#[from] fmt::Error),
}

/// Returns what `[probe] listen` serves.
pub fn router(results: Arc<Results>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(LANDING_PAGE) }))
        .route("/metrics", get(metrics))
        .with_state(Arc::clone(&results))
        .merge(queries(results))
}

/// Returns what the agent's Unix socket serves of it.
pub fn queries(results: Arc<Results>) -> Router {
    Router::new()
        .route(RUNS, get(runs))
        .route(LATEST, get(latest))
        .route(PATHS, get(paths))
        .route(HISTORY, get(history))
        .with_state(results)
}

const LANDING_PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<title>wad probe</title>\n<h1>wad probe ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>Paths measured by ourselves.\n<ul>\n<li><a href=\"/metrics\">Metrics</a>\n",
    "<li><a href=\"/v1/probe/latest\">The latest of each task</a>\n",
    "<li><a href=\"/v1/probe/paths\">What is known of paths</a>\n</ul>\n</html>\n"
);

/// Answers that are made at a time, whoever has asked and gone away since.
static AT_ONCE: Semaphore = Semaphore::const_new(4);

type Told<T> = Json<Document<T>>;

async fn runs(State(results): State<Arc<Results>>, uri: Uri) -> Result<Told<Runs>, Refusal> {
    let question = Question::parse(uri.query().unwrap_or_default())?;
    answer(move || results.runs(&question)).await
}

async fn history(State(results): State<Arc<Results>>, uri: Uri) -> Result<Told<History>, Refusal> {
    let question = Question::parse(uri.query().unwrap_or_default())?;
    answer(move || results.history(&question)).await
}

async fn latest(State(results): State<Arc<Results>>) -> Result<Told<Tasks>, Refusal> {
    answer(move || results.tasks(Timestamp::now())).await
}

async fn paths(State(results): State<Arc<Results>>) -> Result<Told<Paths>, Refusal> {
    answer(move || results.paths(Timestamp::now())).await
}

async fn metrics(
    State(results): State<Arc<Results>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accepted.unwrap_or_default());
    let page = beside(move || results.metrics(format)).await?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], page).into_response())
}

async fn answer<T: Serialize + JsonSchema + Send + 'static>(
    make: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<Told<T>, Refusal> {
    let made = beside(move || make().map_err(AnswerError::from)).await?;
    Ok(Json(Document::new(made)))
}

/// Reads beside the tasks that must not wait for the disk.
async fn beside<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, AnswerError> + Send + 'static,
) -> Result<T, Refusal> {
    let turn = AT_ONCE.acquire().await.expect("nobody closes it");
    let made = tokio::task::spawn_blocking(move || {
        // It goes on when whoever asked has gone.
        let _turn = turn;
        make()
    });
    let failed = |text: String| {
        tracing::warn!("cannot answer of probes: {text}");
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    match made.await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(error)) => Err(failed(told(&error))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// A refusal is JSON, too, for programs that ask.
struct Refusal(StatusCode, String);

impl From<QuestionError> for Refusal {
    fn from(error: QuestionError) -> Self {
        Self(StatusCode::BAD_REQUEST, error.to_string())
    }
}

#[derive(Serialize)]
struct Refused {
    error: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(Refused { error: self.1 })).into_response()
    }
}

/// Returns a bucket for a plot of so long a time: a tidy length, some hundred of which are
/// in it.
#[must_use]
pub fn bucket(time: Duration) -> Duration {
    const MINUTES: [u64; 9] = [1, 5, 10, 30, 60, 180, 360, 720, 1_440];
    let fits = |minutes: &u64| time.as_secs() / (minutes * 60) <= 500;
    let minutes = MINUTES.into_iter().find(fits).unwrap_or(MINUTES[MINUTES.len() - 1]);
    Duration::from_secs(minutes * 60)
}

#[cfg(test)]
mod tests;
