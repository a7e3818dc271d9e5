//! Answers `wad explain` and the agent's `/v1/path` from what is in force.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use wad_observing::metrics::SourceError;
use wad_tuning::explain::{Answer, Query};

/// Answers from what is in force. It may block for some lookups in maps.
#[derive(Clone)]
pub struct Explainer(Arc<Explain>);

type Explain = dyn Fn(&Query) -> Result<Answer, SourceError> + Send + Sync;

impl Explainer {
    pub fn new(
        explain: impl Fn(&Query) -> Result<Answer, SourceError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(explain))
    }

    pub fn explain(&self, query: &Query) -> Result<Answer, SourceError> {
        self.0(query)
    }
}

impl Debug for Explainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explainer")
    }
}
