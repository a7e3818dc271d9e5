//! What a running agent answers over HTTP: Prometheus on a TCP address, and the
//! commands of `wad` on a Unix socket that only root may open.

mod bind;
mod serve;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};

pub use self::{
    bind::{bind_control, bind_metrics},
    serve::serve,
};
use crate::{
    metrics::{self, Format, Readings, Source, SourceError},
    paths::{self, Paths},
    status::{About, Status},
};

/// What the answers are made of.
#[derive(Debug)]
pub struct Api {
    pub about: About,
    /// Paths that get metrics of their own.
    pub max_paths: usize,
    pub source: Source,
    pub paths: paths::Source,
}

/// What the metrics' address serves.
pub fn metrics_router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(LANDING_PAGE) }))
        .route("/-/healthy", get(|| async { "wad is healthy.\n" }))
        .route("/metrics", get(scrape))
        .with_state(api)
}

/// What the Unix socket serves.
pub fn control_router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/paths", get(known_paths))
        .with_state(api)
}

const LANDING_PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<title>wad</title>\n<h1>wad ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>TCP tuning per path.\n<ul>\n<li><a href=\"/metrics\">Metrics</a>\n",
    "<li><a href=\"/-/healthy\">Health</a>\n</ul>\n</html>\n"
);

async fn scrape(State(api): State<Arc<Api>>, headers: HeaderMap) -> Result<Response, Failure> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let text = with_readings(&api, move |api, readings| {
        metrics::encode(readings, api.max_paths, api.about.started_at, format)
    });
    let text = text.await?.map_err(|error| Failure(error.into()))?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

async fn status(State(api): State<Arc<Api>>) -> Result<Json<Status>, Failure> {
    let status = with_readings(&api, |api, readings| Status::new(&api.about, readings));
    Ok(Json(status.await?))
}

async fn known_paths(State(api): State<Arc<Api>>) -> Result<Json<Paths>, Failure> {
    let task = tokio::task::spawn_blocking(move || api.paths.read());
    Ok(Json(task.await.map_err(|error| Failure(error.into()))?.map_err(Failure)?))
}

/// Reads the maps, and makes an answer of it, beside the tasks that must not
/// wait for it: with many paths it takes tens of milliseconds.
async fn with_readings<T: Send + 'static>(
    api: &Arc<Api>,
    answer: impl FnOnce(&Api, Readings) -> T + Send + 'static,
) -> Result<T, Failure> {
    let api = Arc::clone(api);
    let task = tokio::task::spawn_blocking(move || {
        let readings = api.source.read()?;
        Ok(answer(&api, readings))
    });
    task.await.map_err(|error| Failure(error.into()))?.map_err(Failure)
}

/// An answer that could not be made.
struct Failure(SourceError);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        tracing::warn!("cannot answer a request: {}", self.0);
        (StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", self.0)).into_response()
    }
}

#[cfg(test)]
mod tests;
