//! Looks at the flows that run: one that fails is made again later, and said once.

use std::time::Instant;

use anyhow::Error;
use tracing::{info, warn};
use wad_toolbox::attempts::Attempts;

/// Notes how a look went, and returns what was seen. The words are for the log: when it works
/// again, and when it has failed.
pub fn seen<T, E: Into<Error>>(
    attempts: &mut Attempts,
    look: Result<T, E>,
    now: Instant,
    (again, lost): (&str, &str),
) -> Option<T> {
    match look {
        Ok(seen) => {
            if attempts.worked() {
                info!("{again}");
            }
            Some(seen)
        }
        Err(error) => {
            if attempts.failed(now) {
                warn!("{lost}: {:#}", error.into());
            }
            None
        }
    }
}
