//! A request is delivered, or given up: what is tried again, and when, is the OTLP
//! specification's (OTLP/HTTP Response, and Failures).

use std::time::Duration;

use hyper::{
    body::Bytes,
    header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use tokio::time::{Instant, sleep};
use tracing::warn;
use wad_http::{Client, HttpError, Terms};
use wad_observing::metrics::otlp::{self, NoAnswer, PartialSuccess};
use wad_policy::config::Otlp;
use wad_toolbox::{
    back_off::{FIRST_BACK_OFF, back_off},
    causes::told,
    shortage,
};

use super::Board;

/// An answer has a few bytes; that of a refusal is shown in part.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Most that a service is given for what it asks.
const MAX_WAIT: Duration = Duration::from_secs(3600);

const PROTOBUF: HeaderValue = HeaderValue::from_static(otlp::CONTENT_TYPE);
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// Says why a request is not taken.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error("cannot export to {url}")]
    Http { url: String, source: Box<HttpError> },
    #[error(transparent)]
    Answer(#[from] NoAnswer),
}

/// Says that a request was given up, and until when the service asks to be spared.
pub struct GivenUp {
    pub not_before: Option<Instant>,
}

/// Delivers requests to one service.
pub struct Delivery<'d> {
    to: &'d Otlp,
    pub board: &'d Board,
    /// Its last word on requests that it took in part.
    told: Option<PartialSuccess>,
}

impl<'d> Delivery<'d> {
    pub const fn new(to: &'d Otlp, board: &'d Board) -> Self {
        Self { to, board, told: None }
    }

    /// Delivers a request, and tries again until then what may be taken another time.
    pub async fn deliver(&mut self, body: Bytes, until: Instant) -> Result<(), GivenUp> {
        let mut failures = 0;
        loop {
            let error = match self.post(body.clone()).await {
                Ok(partial) => {
                    self.tell(partial);
                    return Ok(());
                }
                Err(error) => error,
            };
            shortage::note(&error);
            let Some(asked) = error.retry() else {
                self.board.given_up(told(&error));
                return Err(GivenUp { not_before: None });
            };
            let wait = match asked {
                Some(asked) => asked.clamp(FIRST_BACK_OFF, MAX_WAIT),
                None => back_off(failures),
            };
            let again = Instant::now() + wait;
            if again >= until {
                self.board.given_up(told(&error));
                return Err(GivenUp { not_before: asked.map(|_| again) });
            }
            self.board.failed(told(&error));
            failures += 1;
            sleep(wait).await;
        }
    }

    async fn post(&self, body: Bytes) -> Result<Option<PartialSuccess>, DeliveryError> {
        let Otlp { url, access, timeout, .. } = self.to;
        let terms = Terms { access, timeout: *timeout, max_response_bytes: MAX_RESPONSE_BYTES };
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, PROTOBUF),
            (CONTENT_ENCODING, GZIP),
            (ACCEPT, PROTOBUF),
        ]);
        let posted = async { Client::new(terms, url)?.post(headers, body).await };
        let at = |error| {
            let source = Box::new(with_reason(error));
            DeliveryError::Http { url: url.to_string(), source }
        };
        Ok(otlp::partial_success(&posted.await.map_err(at)?)?)
    }

    /// Counts what was left out of a request, and says so when that is something new.
    fn tell(&mut self, partial: Option<PartialSuccess>) {
        let Some(partial) = partial else { return };
        self.board.rejected(partial.rejected_points);
        if self.told.as_ref() != Some(&partial) {
            let (url, PartialSuccess { rejected_points, message }) = (&self.to.url, &partial);
            match rejected_points {
                0 => warn!(%url, "takes metrics, and says: {message}"),
                points => warn!(%url, points, "leaves out points of metrics: {message}"),
            }
        }
        self.told = Some(partial);
    }
}

/// Has a refusal say why in its own words, where the body tells it by the protocol.
fn with_reason(mut error: HttpError) -> HttpError {
    if let HttpError::Status { reason, body, .. } = &mut error
        && let Some(told) = otlp::reason(body)
    {
        *reason = told;
    }
    error
}

impl DeliveryError {
    /// Says whether the same request may be taken another time, and when, if the service asks
    /// for that.
    fn retry(&self) -> Option<Option<Duration>> {
        const TEMPORARY: [u16; 4] = [429, 502, 503, 504];
        let Self::Http { source, .. } = self else { return None };
        match &**source {
            HttpError::Status { status, wait, .. } if TEMPORARY.contains(status) => Some(*wait),
            HttpError::Resolve { .. }
            | HttpError::Connect { .. }
            | HttpError::Tunnel { .. }
            | HttpError::Timeout { .. }
            | HttpError::Broken { .. } => Some(None),
            _ => None,
        }
    }
}
