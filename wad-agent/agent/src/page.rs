//! A page for browsers shows what the agent knows, and changes nothing: its paths, the flows that
//! there are, what experiments and guards have found, the events of the last hour, and what is
//! changed on this host. It is made of what
//! commands print with `--json`, and whole without a script.
//!
//! Nobody but this host asks for it, and no other site may ([`Gate`]). A page is made beside the
//! event loop, two at a time; who takes it slowly makes room for others.

mod assets;
mod columns;
mod events;
mod evidence;
mod figure;
mod flow;
mod flows;
mod gate;
mod host;
mod layout;
mod pages;
mod path;
mod paths;
mod query;
mod words;

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{Html, IntoResponse, Response},
};
use jiff::Timestamp;
use maud::html;
use tokio::sync::Semaphore;
use wad_linux::sysctl::Sysctl;
use wad_observing::{
    metrics::SourceError,
    reading::{Filter, ReadError, parse_cookie},
};
use wad_probing::answers::History;
use wad_toolbox::shortage;

pub use self::gate::Gate;
use self::{
    layout::{Frame, Page},
    query::Query,
};
use crate::api::Api;

/// Pages that are made at a time, whoever has asked and gone away since.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Pages are made of this.
struct Desk {
    api: Arc<Api>,
    gate: Gate,
    frame: Frame,
}

/// A question: for what, and when.
struct Asked<'a> {
    api: &'a Api,
    query: Query,
    /// The results of probes on the path that is asked for.
    history: Option<History>,
    now: Timestamp,
}

/// A page that is not there, or could not be made.
enum Trouble {
    /// There is no such thing, which is named.
    Missing(String),
    Failed(SourceError),
}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

impl From<ReadError> for Trouble {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::UnknownPath(name) => {
                Self::Missing(format!("No path in force is called {name:?}."))
            }
            error => Self::Failed(error.into()),
        }
    }
}

/// Returns what the address of `[page]` serves.
pub fn router(api: Arc<Api>, gate: Gate) -> Router {
    let frame = Frame { host: Sysctl::default().host_name(), instance: api.about.instance.clone() };
    // One way for all requests: none gets past the gate, and no answer out as it should not be.
    Router::new().fallback(answer).with_state(Arc::new(Desk { api, gate, frame }))
}

async fn answer(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let uri = request.uri();
    let mut answer = match desk.gate.refusal(request.method(), uri, request.headers()) {
        Some(reason) => reason.words().into_response(),
        None if uri.path().starts_with("/assets/") => assets::answer(uri.path()),
        None => make(desk, uri.clone()).await,
    };
    harden(&mut answer);
    answer
}

/// These headers of each answer tell browsers that nothing of it is anybody else's, that nothing
/// runs or loads but what comes from here by itself, and that no other page shows it.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::VARY, "sec-fetch-site"),
];

fn harden(answer: &mut Response) {
    let is_method = answer.status() == StatusCode::METHOD_NOT_ALLOWED;
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Pages have what is not to lie around on a disk.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if is_method {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
}

/// Makes a page beside the tasks that must not wait for it, and says how long that took (the
/// header Server-Timing of the W3C).
async fn make(desk: Arc<Desk>, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    let history = match query.get("name").filter(|_| uri.path() == "/path") {
        Some(name) => desk.api.probes.last_week(name).await,
        None => None,
    };
    let turn = AT_ONCE.acquire().await.expect("nobody closes it");
    let making = tokio::task::spawn_blocking(move || {
        // It goes on when whoever asked has gone.
        let _turn = turn;
        let (begun, now) = (Instant::now(), Timestamp::now());
        let made = Asked { api: &desk.api, query, history, now }.page(uri.path());
        let (status, page) = match made {
            Ok(page) => (StatusCode::OK, page),
            Err(trouble) => trouble.page(),
        };
        let text = desk.frame.page(&page, &now.strftime("%F %T UTC").to_string()).into_string();
        let timing = format!("page;dur={:.3}", begun.elapsed().as_secs_f64() * 1e3);
        (status, [("server-timing", timing)], Html(text)).into_response()
    });
    match making.await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!("cannot make a page: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made\n").into_response()
        }
    }
}

impl Asked<'_> {
    fn page(&self, path: &str) -> Result<Page, Trouble> {
        let Self { api, query, history, now } = self;
        match path {
            "/" => Ok(paths::page(&api.status()?, &api.paths.read()?, query)),
            "/path" => {
                let name = query.get("name").unwrap_or_default();
                let known = (&api.status()?, &api.paths.read()?);
                let page = path::page(name, known, history.as_ref(), *now);
                page.ok_or_else(|| ReadError::UnknownPath(name.to_owned()).into())
            }
            "/flows" => {
                let asked = flows::Asked::of(query);
                Ok(flows::page(&asked, &api.flows.read(&asked.filter())?, query))
            }
            "/flow" => self.flow(),
            "/events" => Ok(events::page(&api.recent.read(*now, None), query, *now)),
            "/evidence" => {
                Ok(evidence::page(&api.experiments.told().experiments, &api.guards.told()))
            }
            "/host" => Ok(host::page(&api.status()?)),
            _ => Err(Trouble::Missing("There is no such page.".to_owned())),
        }
    }

    fn flow(&self) -> Result<Page, Trouble> {
        const MISSING: &str = "No flow has this cookie, and none had it in the last hour.";
        let missing = || Trouble::Missing(MISSING.to_owned());
        let cookie = parse_cookie(self.query.get("cookie").unwrap_or_default());
        let cookie = cookie.map_err(|_| missing())?;
        let of_path = Filter { cookies: vec![cookie], ..Filter::default() };
        let mut reading = self.api.flows.read(&of_path)?;
        if reading.flows.is_empty() {
            reading = self.api.flows.read(&Filter { all: true, ..of_path })?;
        }
        let hour = self.api.recent.read(self.now, Some(cookie));
        let of = (cookie, &*self.api.about.instance);
        flow::page(of, reading.flows.first(), &hour, self.now).ok_or_else(missing)
    }
}

impl Trouble {
    /// Returns the page that says so.
    fn page(self) -> (StatusCode, Page) {
        let (status, title, words) = match self {
            Self::Missing(words) => (StatusCode::NOT_FOUND, "Not here", words),
            Self::Failed(error) => {
                shortage::note(&*error);
                tracing::warn!("cannot make a page: {error}");
                let words = format!("The agent cannot say: {error}.");
                (StatusCode::INTERNAL_SERVER_ERROR, "Not now", words)
            }
        };
        let live = html! { p { (words) } };
        (status, Page { at: "", title: title.to_owned(), form: html! {}, live })
    }
}

#[cfg(test)]
mod tests;
