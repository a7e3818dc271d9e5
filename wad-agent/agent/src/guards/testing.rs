//! Guards for tests.

use std::time::Duration;

use jiff::Timestamp;
use wad_evidence::guard::{Guard, Reading, Sample, Settings, State};

use super::{Guards, Kept, Trip};

/// Returns a guard that holds a path's policy back, as its goodput has come to a tenth.
pub fn held_back(path: &str) -> Guards {
    let mut guard = Guard::new(Settings::default());
    let mut tripped = None;
    for tick in 1_u32.. {
        let is_known = matches!(guard.state(), State::InForce { .. });
        let goodput = Some(if is_known { 1e6 } else { 1e7 });
        let reading = Reading { goodput, goodput_of_one: goodput, ..Reading::default() };
        let sample = Sample { tuned: reading.into(), ..Sample::default() };
        let change = guard.tick(Duration::from_secs(5) * tick, &sample);
        if let Some(harm) = change.and_then(|change| change.harm) {
            tripped = Some(Trip { at: Timestamp::UNIX_EPOCH, harm });
            break;
        }
    }
    guard.is_back();
    Guards::new(vec![Kept { path: path.to_owned(), subject: String::new(), guard, tripped }])
}
