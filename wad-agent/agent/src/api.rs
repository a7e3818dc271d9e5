//! A running agent answers over HTTP: Prometheus on a TCP address, and the commands
//! of `wad` on a Unix socket that only root may open; those that only show something on
//! another, which a group may open, too.

mod bind;
mod guard;
mod scrapes;
mod serve;

use std::{
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    middleware::{Next, from_fn},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use wad_observing::{
    metrics::{self, Format, Source, SourceError},
    reading::{self, Filter, ReadError},
    recent::Recent,
};
use wad_policy::{
    config::{MAX_FILE_BYTES, Texts},
    switch,
};
use wad_toolbox::{document::Document, mutex::locked, shortage};
use wad_tuning::{
    attachment::Attachment,
    explain::{Answer, Query},
};

#[cfg(feature = "fuzz")]
pub use self::guard::fuzz as fuzz_authorization;
use self::scrapes::{Form, Scrapes, takes_gzip};
pub use self::{
    bind::{BindError, Unplaced, bind_control, bind_page, bind_readers, bind_tcp},
    guard::{Duty, Guard, GuardError},
    serve::{Terms, names_this_host, serve, serve_by},
};
use crate::{
    evidence::{self, ExperimentAnswer, ExperimentOrder, Experiments, ExperimentsTold},
    explainer::Explainer,
    guards::{Guards, RELEASE_AT, Release, ReleaseAnswer},
    handing_over::{self, HandingOver},
    heard::Ends,
    paths::{self, Paths},
    peers,
    probes::Desk,
    reload,
    status::{About, Evidence, ExperimentStatus, Status},
    switched,
};

/// Holds what the answers are made of.
#[derive(Debug)]
pub struct Api {
    pub about: About,
    /// Paths that get metrics of their own.
    pub max_paths: Arc<AtomicUsize>,
    /// Whether tuning is in the kernel.
    pub attachment: Arc<Mutex<Attachment>>,
    pub source: Source,
    pub paths: paths::Source,
    pub explainer: Explainer,
    pub flows: reading::Source,
    /// Whoever asks about probes asks here.
    pub probes: Desk,
    /// Whoever asks about peers asks here.
    pub peers: peers::Desk,
    /// The words of peers.
    pub ends: Ends,
    /// The events of the last hour, where they are kept.
    pub recent: Arc<Recent>,
    pub experiments: Experiments,
    pub guards: Guards,
}

impl Api {
    /// Returns what the agent says of itself now. It may block for as long as reading the maps
    /// takes.
    pub fn status(&self) -> Result<Status, SourceError> {
        let status = Status::new(&self.about, self.source.read()?);
        let status = status.with_probes(self.probes.outlook()).with_peers(&self.ends);
        Ok(status.with_guards(self.guards.told()))
    }
}

/// Returns what the metrics' address serves.
pub fn metrics_router(api: Arc<Api>, duty: Duty) -> Router {
    let guarded = from_fn(move |request: Request, next: Next| {
        let guard = Arc::clone(&locked(&duty));
        async move {
            match guard.admits(request.headers().get(header::AUTHORIZATION)).await {
                true => next.run(request).await,
                false => (StatusCode::UNAUTHORIZED, CHALLENGE, "who asks?\n").into_response(),
            }
        }
    });
    let attachment = Arc::clone(&api.attachment);
    let readiness = move || async move { readiness(&locked(&attachment)) };
    Router::new()
        .route("/", get(|| async { Html(LANDING_PAGE) }))
        .route("/-/healthy", get(|| async { "wad is healthy.\n" }))
        .route("/-/ready", get(readiness))
        .route("/metrics", get(scrape))
        .with_state(Scrapes::new(move |format| {
            let readings = api.source.read()?;
            let max_paths = api.max_paths.load(Ordering::Relaxed);
            Ok(metrics::encode(readings, max_paths, api.about.started_at, format)?)
        }))
        .layer(guarded)
}

/// The answer to whoever does not say, or not rightly, who asks (RFC 7617 section 2).
const CHALLENGE: [(HeaderName, &str); 1] = [(header::WWW_AUTHENTICATE, "Basic realm=\"wad\"")];

/// Says whether flows are tuned, and if not, why.
fn readiness(attachment: &Attachment) -> (StatusCode, String) {
    let faults: String = attachment.faults().map(|fault| format!("{fault}\n")).collect();
    match faults.is_empty() {
        true => (StatusCode::OK, "wad is ready.\n".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, faults),
    }
}

/// Returns what the address of `[api]` serves: what anyone on this host may know.
pub fn paths_router(api: Arc<Api>) -> Router {
    Router::new().route("/v1/path", get(path)).with_state(api)
}

/// Room for a configuration of any size, as JSON has it.
const PREVIEW_BYTES: usize = 2 * MAX_FILE_BYTES;

/// A command says what the agent is asked to do, and where it answers.
#[derive(Debug)]
pub enum Command {
    Reload(reload::Answer),
    /// Says what a reload would change: of the agent's own file, or of another text.
    Preview(Option<Texts>, reload::PreviewAnswer),
    Switch(switch::Order, switched::Answer),
    /// Begins an experiment, or ends one.
    Experiment(ExperimentOrder, ExperimentAnswer),
    /// Ends what a guard does.
    Release(Release, ReleaseAnswer),
    /// Has this agent leave its place to another one.
    HandOver(handing_over::Answer),
}

/// Returns what the socket of a group serves: it changes nothing.
pub fn readers_router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/paths", get(known_paths))
        .route("/v1/flows", get(flows))
        .route(evidence::AT, get(experiments))
        .route(evidence::SUMMED_UP_AT, get(summed_up))
        .with_state(Arc::clone(&api))
        .merge(api.probes.queries())
        .merge(api.peers.queries())
        .merge(paths_router(api))
}

/// Returns what the Unix socket serves.
pub fn control_router(api: Arc<Api>, commands: mpsc::Sender<Command>) -> Router {
    let (switches, previews) = (commands.clone(), commands.clone());
    let successors = commands.clone();
    let hand_over = move || ask::<HandingOver>(successors, Command::HandOver);
    let preview = move |Json(other): Json<Option<Texts>>| {
        ask(previews, move |answer| Command::Preview(other, answer))
    };
    let switch = move |Json(order): Json<switch::Order>| {
        ask(switches, move |answer| Command::Switch(order, answer))
    };
    let experiments = commands.clone();
    let experiment = move |Json(order): Json<ExperimentOrder>| {
        ask(experiments, move |answer| Command::Experiment(order, answer))
    };
    let releases = commands.clone();
    let release = move |Json(order): Json<Release>| {
        ask(releases, move |answer| Command::Release(order, answer))
    };
    let reload = move || ask(commands, Command::Reload);
    let probes = api.probes.orders();
    readers_router(api)
        .merge(probes)
        .route("/v1/reload", post(reload))
        .route("/v1/reload/preview", post(preview).layer(DefaultBodyLimit::max(PREVIEW_BYTES)))
        .route("/v1/switch", post(switch))
        .route(evidence::ORDERS_AT, post(experiment))
        .route(RELEASE_AT, post(release))
        .route(handing_over::AT, post(hand_over))
}

/// Waits until the agent has done it.
async fn ask<T>(
    commands: mpsc::Sender<Command>,
    command: impl FnOnce(oneshot::Sender<T>) -> Command,
) -> Result<Told<T>, (StatusCode, &'static str)> {
    const STOPPING: (StatusCode, &str) =
        (StatusCode::SERVICE_UNAVAILABLE, "the agent is stopping\n");
    let (answer, outcome) = oneshot::channel();
    commands.send(command(answer)).await.map_err(|_| STOPPING)?;
    outcome.await.map(told).map_err(|_| STOPPING)
}

const LANDING_PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<title>wad</title>\n<h1>wad ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>TCP tuning per path.\n<ul>\n<li><a href=\"/metrics\">Metrics</a>\n",
    "<li><a href=\"/-/healthy\">Health</a>\n<li><a href=\"/-/ready\">Readiness</a>\n</ul>\n</html>\n"
);

async fn scrape(State(scrapes): State<Scrapes>, headers: HeaderMap) -> Result<Response, Failure> {
    let asked = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(asked(header::ACCEPT));
    let is_gzip = takes_gzip(asked(header::ACCEPT_ENCODING));
    let text = scrapes.page(Form { format, is_gzip }).await.map_err(Failure)?;
    let mut answer = ([(header::CONTENT_TYPE, format.content_type())], text).into_response();
    let headers = answer.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if is_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(answer)
}

/// An answer has the version of its form before it.
type Told<T> = Json<Document<T>>;

const fn told<T>(answer: T) -> Told<T> {
    Json(Document::new(answer))
}

async fn status(State(api): State<Arc<Api>>) -> Result<Told<Status>, Failure> {
    beside(move || api.status()).await.map(told).map_err(Failure)
}

async fn experiments(State(api): State<Arc<Api>>) -> Result<Told<ExperimentsTold>, Failure> {
    beside(move || Ok(api.experiments.told())).await.map(told).map_err(Failure)
}

async fn summed_up(State(api): State<Arc<Api>>) -> Told<Evidence> {
    let experiments = api.experiments.readings().into_iter().map(ExperimentStatus::from);
    told(Evidence { experiments: experiments.collect(), guards: api.guards.told() })
}

async fn known_paths(State(api): State<Arc<Api>>) -> Result<Told<Paths>, Failure> {
    beside(move || api.paths.read()).await.map(told).map_err(Failure)
}

/// Does what may block beside the tasks that must not wait for it: to read the maps takes
/// tens of milliseconds where there are many paths.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    tokio::task::spawn_blocking(work).await?
}

/// Look-ups of paths at a time, whoever has asked and gone away since.
static LOOK_UPS: Semaphore = Semaphore::const_new(4);

async fn path(State(api): State<Arc<Api>>, uri: Uri) -> Result<Told<Answer>, Refusal> {
    let query = Query::parse(uri.query().unwrap_or_default())
        .map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?;
    let look_up = LOOK_UPS.acquire().await.expect("nobody closes it");
    let answer = beside(move || {
        // A look-up goes on when whoever asked has gone.
        let _look_up = look_up;
        api.explainer.explain(&query)
    });
    let failed = |error: SourceError| {
        tracing::warn!("cannot answer a request: {error}");
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    answer.await.map(told).map_err(failed)
}

/// Answers with the flows, and with the time that the reading took, without the
/// answer (the header Server-Timing of the W3C).
async fn flows(State(api): State<Arc<Api>>, uri: Uri) -> Result<Response, Response> {
    let wrong = |error: &dyn Error| (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
    let failed = |error: SourceError| Failure(error).into_response();
    let filter = Filter::parse(uri.query().unwrap_or_default()).map_err(|error| wrong(&error))?;
    let task = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        let reading = api.flows.read(&filter)?;
        let took_ms = begun.elapsed().as_secs_f64() * 1e3;
        // It takes time, too, where there are thousands of flows.
        let timing = [("server-timing", format!("read;dur={took_ms:.3}"))];
        Ok((timing, told(reading)).into_response())
    });
    let read = task.await.map_err(|error| failed(error.into()))?;
    read.map_err(
        |error: ReadError| {
            if error.is_of_question() { wrong(&error) } else { failed(error.into()) }
        },
    )
}

/// A refusal is JSON, too, for programs that ask.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({ "error": self.1 }))).into_response()
    }
}

/// An answer that could not be made.
struct Failure(SourceError);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        shortage::note(&*self.0);
        tracing::warn!("cannot answer a request: {}", self.0);
        (StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", self.0)).into_response()
    }
}

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
