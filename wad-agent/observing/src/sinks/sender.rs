//! The thread of one sink empties its spool.

use std::time::Duration;

use tracing::{info, warn};
use wad_toolbox::{chance::chance, mutex::locked};

use super::{
    error::{Refused, SinkError},
    outbox::Outbox,
    target::Target,
};

/// Lines given at once: some 400.
const BATCH_BYTES: usize = 256 << 10;

const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
const MAX_BACK_OFF: Duration = Duration::from_secs(30);
/// Most that a server is given for what it asks.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// Part of a wait that is up to chance, so that hosts do not all come at once.
const JITTER: f64 = 0.5;

/// Goes on until the agent ends.
pub fn run(outbox: &Outbox) {
    let mut target = Target::of(outbox.sink.kind.clone());
    let mut failures = 0;
    loop {
        match send(outbox, &mut target) {
            Ok(true) => {
                tell(outbox, None);
                failures = 0;
            }
            Ok(false) => return,
            Err(error) => {
                tell(outbox, Some(&error));
                let wait = match error.wait() {
                    Some(wait) => wait.clamp(FIRST_BACK_OFF, MAX_WAIT),
                    None => back_off(failures),
                };
                failures += 1;
                if !outbox.pause(wait) {
                    return;
                }
            }
        }
    }
}

/// Sends one batch, and returns whether there can be more.
fn send(outbox: &Outbox, target: &mut Target) -> Result<bool, SinkError> {
    let Some(batch) = outbox.next(BATCH_BYTES).map_err(SinkError::Spool)? else {
        return Ok(false);
    };
    // Damage only: nothing to give.
    let taken = if batch.len() == 0 { Ok(()) } else { target.take(&batch) };
    match taken {
        Ok(()) => {
            outbox.advance(&batch, batch.len());
            Ok(true)
        }
        Err(Refused { taken, error }) => {
            outbox.advance(&batch, taken);
            Err(error)
        }
    }
}

/// Tells the log, when it fails for the first time, and when it is well again.
fn tell(outbox: &Outbox, error: Option<&SinkError>) {
    let sink = outbox.sink.name.as_str();
    let told = error.map(SinkError::told);
    let mut failing = locked(&outbox.counts().failing);
    match (&*failing, &told) {
        (None, Some(why)) => warn!(sink, "takes no events, which are kept for it: {why}"),
        (Some(_), None) => info!(sink, "takes events again"),
        _ => {}
    }
    *failing = told;
}

/// Doubled with each failure in a row.
fn back_off(failures: u32) -> Duration {
    let doubled = FIRST_BACK_OFF.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    doubled.min(MAX_BACK_OFF).mul_f64(1.0 - JITTER * chance())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_vary() {
        for (failures, most_ms) in [(0, 250), (1, 500), (6, 16_000), (7, 30_000), (99, 30_000)] {
            let most = Duration::from_millis(most_ms);
            for _ in 0..100 {
                assert!((most / 2..=most).contains(&back_off(failures)), "{failures}");
            }
        }
    }
}
