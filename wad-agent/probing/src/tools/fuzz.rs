//! Parsers of what others say, under libFuzzer; see `tests/fuzz`.

use super::{
    helpers::{command, iperf3, ping},
    message::Message,
};
use crate::measurement::{Measurement, Share};

/// Reads what a probe or an answerer is sent.
pub fn message(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

/// Reads what a helper prints.
pub fn helper(bytes: &[u8]) {
    if let Ok(found) = iperf3::read(bytes) {
        hold(&found);
    }
    if let Ok(command::Said::Found(found)) = command::read(bytes) {
        hold(&found);
    }
    if let Some(found) = str::from_utf8(bytes).ok().and_then(ping::read) {
        assert!(found.came <= found.sent && found.reordered <= found.came);
        assert!(found.seconds.iter().all(|time| time.is_finite() && *time >= 0.0));
    }
}

/// Asserts what holds of any measurement.
pub fn hold(found: &Measurement) {
    for Share { part, whole } in [found.loss, found.reordering].into_iter().flatten() {
        assert!(part <= whole && whole > 0);
    }
    let bandwidth = found.bandwidth.as_ref();
    assert!(bandwidth.is_none_or(|it| it.bits_per_second > 0.0 && it.bits_per_second.is_finite()));
    let loaded = bandwidth.and_then(|it| it.loaded_rtt);
    for times in [found.rtt, loaded].into_iter().flatten() {
        assert!(times.samples > 0 && times.min_seconds > 0.0 && times.max_seconds.is_finite());
        assert!(times.min_seconds <= times.median_seconds);
        assert!(times.median_seconds <= times.max_seconds);
    }
}
