//! Lines by POST, a batch at a time. Any answer but a success is tried again.

use hyper::{
    body::Bytes,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use tokio::runtime::{Builder, Runtime};
use wad_http::{Client, Terms};
use wad_policy::config::Collector;

use super::error::SinkError;

const JSON_LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Nobody reads the body of a success; that of a refusal is shown in part.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

pub struct Poster {
    collector: Box<Collector>,
    /// Made with the first batch.
    runtime: Option<Runtime>,
}

impl Poster {
    pub const fn new(collector: Box<Collector>) -> Self {
        Self { collector, runtime: None }
    }

    pub fn post(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let Collector { url, access, timeout } = &*self.collector;
        let terms = Terms { access, timeout: *timeout, max_response_bytes: MAX_RESPONSE_BYTES };
        let runtime = match &self.runtime {
            Some(runtime) => runtime,
            None => {
                let runtime = Builder::new_current_thread().enable_all().build();
                self.runtime.insert(runtime.map_err(SinkError::Runtime)?)
            }
        };
        let at = |error| SinkError::Http { url: url.to_string(), source: Box::new(error) };
        let client = Client::new(terms, url).map_err(at)?;
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON_LINES)]);
        let posted = client.post(headers, Bytes::copy_from_slice(lines));
        runtime.block_on(posted).map(drop).map_err(at)
    }
}
