//! CUBIC and the end of slow start have the same 16 bytes of a flow, one after the other.

use std::mem::transmute;

use wad_common::law::{
    cubic::Cubic,
    hystart::{Ack, HyStart},
};

fn samples(state: &mut HyStart, rtts_us: &[u32]) -> bool {
    let mut is_over = false;
    for latest_rtt_us in rtts_us {
        for _ in 0..8 {
            is_over |= state.ends_with(&Ack {
                latest_rtt_us: *latest_rtt_us,
                acked_segments: 4,
                rapid_start_allowed: false,
            });
        }
    }
    is_over
}

#[test]
fn neither_takes_the_state_of_the_other_for_its_own() {
    let mut state = HyStart::START;
    assert!(!samples(&mut state, &[40_000, 46_000]));
    assert!(state.is_conservative());
    // SAFETY: both are plain records of the same size, valid for any bytes.
    let mut cubic: Cubic = unsafe { transmute(state) };
    let mut fresh = Cubic::START;
    assert_eq!(cubic.shrink(1_000, 1), fresh.shrink(1_000, 1));
    assert_eq!(cubic, fresh);
    // SAFETY: as above.
    let mut state: HyStart = unsafe { transmute(cubic) };
    assert!(!state.is_conservative());
    assert!(!samples(&mut state, &[40_000, 41_000, 40_000]));
}
