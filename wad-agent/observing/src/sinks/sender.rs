//! The thread of one sink empties its spool.

use std::time::Duration;

use tracing::{info, warn};
use wad_policy::config::SinkKind;
use wad_toolbox::{
    back_off::{FIRST_BACK_OFF, back_off},
    mutex::locked,
    shortage,
};

use super::{
    error::{Refused, SinkError},
    outbox::Outbox,
    spool::Batch,
    target::Target,
};

/// Lines given at once: some 400.
const BATCH_BYTES: usize = 256 << 10;

/// Most that a server is given for what it asks.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// A batch is set aside after it was refused so often: a minute or more later, unless the
/// server asks for less.
const REFUSALS: u32 = 10;

/// Goes on until no more lines can come, and what there is is sent or cannot be now.
pub fn run(outbox: &Outbox, kind: SinkKind) {
    let mut target = Target::of(kind);
    let mut failures = 0;
    let mut refused = Refusals::default();
    loop {
        match send(outbox, &mut target, &mut refused) {
            Ok(true) => {
                tell(outbox, None);
                failures = 0;
            }
            Ok(false) => return,
            Err(error) => {
                shortage::note(&error);
                tell(outbox, Some(&error));
                // Another target gets its own time.
                if take_up(outbox, &mut target) {
                    (failures, refused) = (0, Refusals::default());
                    continue;
                }
                // The next batch may well be taken, and gets its own time.
                if refused.are_over() {
                    (failures, refused) = (0, Refusals::default());
                    continue;
                }
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

/// Has lines go where the sink is now, if that has changed.
fn take_up(outbox: &Outbox, target: &mut Target) -> bool {
    let kind = outbox.changed_kind();
    let has_changed = kind.is_some();
    if let Some(kind) = kind {
        *target = Target::of(kind);
    }
    has_changed
}

/// Says how often the oldest batch has been refused.
#[derive(Default)]
struct Refusals {
    count: u32,
    /// Lines that come meanwhile do not get into that batch, and are not refused with it.
    batch_bytes: Option<usize>,
}

impl Refusals {
    fn are_over(&self) -> bool {
        self.count >= REFUSALS
    }

    fn count(&mut self, batch: &Batch) {
        self.count += 1;
        self.batch_bytes = Some(batch.bytes().len());
    }
}

/// Sends one batch, and returns whether there can be more.
fn send(outbox: &Outbox, target: &mut Target, refusals: &mut Refusals) -> Result<bool, SinkError> {
    let most_bytes = refusals.batch_bytes.unwrap_or(BATCH_BYTES);
    let Some(batch) = outbox.next(most_bytes).map_err(SinkError::Spool)? else {
        return Ok(false);
    };
    if take_up(outbox, target) {
        *refusals = Refusals::default();
    }
    // Damage only: nothing to give.
    let taken = if batch.len() == 0 { Ok(()) } else { target.take(&batch) };
    match taken {
        Ok(()) => {
            outbox.advance(&batch, batch.len());
            *refusals = Refusals::default();
            Ok(true)
        }
        Err(Refused { taken: 0, error }) if error.is_refusal() => {
            refusals.count(&batch);
            if refusals.are_over() {
                set_aside(outbox, &batch, &error).inspect_err(|_| refusals.count -= 1)?;
            }
            Err(error)
        }
        Err(Refused { taken, error }) => {
            outbox.advance(&batch, taken);
            Err(error)
        }
    }
}

fn set_aside(outbox: &Outbox, batch: &Batch, why: &SinkError) -> Result<(), SinkError> {
    let file = outbox.aside();
    let has_room = outbox
        .set_aside(batch)
        .map_err(|source| SinkError::Aside { file: file.clone(), source })?;
    let (sink, events) = (outbox.name.as_str(), batch.len());
    let (file, why) = (file.display(), why.told());
    if has_room {
        warn!(sink, events, "refuses events for good, which are set aside in {file}: {why}");
    } else {
        warn!(sink, events, "refuses events for good, which are lost, as {file} is full: {why}");
    }
    Ok(())
}

/// Tells the log, when it fails for the first time, and when it is well again.
fn tell(outbox: &Outbox, error: Option<&SinkError>) {
    let sink = outbox.name.as_str();
    let told = error.map(SinkError::told);
    let mut failing = locked(&outbox.counts.failing);
    match (&*failing, &told) {
        (None, Some(why)) => warn!(sink, "takes no events, which are kept for it: {why}"),
        (Some(_), None) => info!(sink, "takes events again"),
        _ => {}
    }
    *failing = told;
}
