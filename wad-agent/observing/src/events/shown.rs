//! How long a flow of an event was there, and what it carried.

use wad_common::event::Event;

/// Since it was established, or found; to the millisecond, as nobody reads more.
pub fn duration_seconds(event: &Event) -> f64 {
    (duration_ns(event) as f64 / 1e6).round() / 1e3
}

/// Zero where it was never established.
fn duration_ns(event: &Event) -> u64 {
    match event.flow.established_ns {
        0 => 0,
        established_ns => event.time_ns.saturating_sub(established_ns),
    }
}

/// Of the direction that carried more.
pub fn goodput_bits_per_second(event: &Event) -> u64 {
    let bits = u128::from(event.bytes_acked.max(event.bytes_received)) * 8;
    let rate = (bits * 1_000_000_000).checked_div(duration_ns(event).into());
    rate.unwrap_or(0).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use wad_tuning::bpf::testing::event;

    use super::*;

    #[test]
    fn nonsense_is_shown_without_harm() {
        let mut odd = event();
        odd.flow.established_ns = u64::MAX;
        assert_eq!((duration_ns(&odd), goodput_bits_per_second(&odd)), (0, 0));
        odd.flow.established_ns = odd.time_ns - 1;
        odd.bytes_acked = u64::MAX;
        assert_eq!(goodput_bits_per_second(&odd), u64::MAX);
        odd.flow.established_ns = 0;
        assert_eq!(duration_seconds(&odd), 0.0);
    }
}
