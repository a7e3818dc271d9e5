use super::{Ack, HyStart, grow, threshold_us};
use crate::law::{INFINITE_SSTHRESH, MAX_LAW_INCREASE_Q16, Window, aimd::ONE_Q16};

/// Samples of four segments each: whether the window is to grow slower after them, and whether
/// slow start ended with them.
fn samples(state: &mut HyStart, rtts_us: impl IntoIterator<Item = u32>) -> (bool, bool) {
    let mut is_over = false;
    for latest_rtt_us in rtts_us {
        is_over |=
            state.ends_with(&Ack { latest_rtt_us, acked_segments: 4, rapid_start_allowed: false });
    }
    (state.is_conservative(), is_over)
}

#[test]
fn a_queue_slows_the_window_down_and_more_of_it_ends_slow_start() {
    let mut state = HyStart::START;
    assert_eq!(samples(&mut state, [64_000; 16]), (false, false));
    assert_eq!(samples(&mut state, [71_900; 8]), (false, false), "below 1/8");
    assert_eq!(samples(&mut state, [72_100; 8]), (true, false));
    assert_eq!(samples(&mut state, [79_900; 16]), (true, false), "below 1/4");
    assert_eq!(samples(&mut state, [80_100; 8]), (true, true));
}

#[test]
fn a_rise_that_goes_again_was_chance() {
    let mut state = HyStart::START;
    assert_eq!(samples(&mut state, [64_000; 8]), (false, false));
    // The first group that is above all of it only slows it down.
    assert_eq!(samples(&mut state, [90_000; 8]), (true, false));
    assert_eq!(samples(&mut state, [64_500; 8]), (false, false));
}

#[test]
fn one_sample_of_eight_without_a_queue_is_enough() {
    let mut state = HyStart::START;
    let jitter = [69_000, 61_000, 68_000, 66_000, 70_000, 64_500, 69_500, 60_500];
    for _ in 0..100 {
        assert!(!samples(&mut state, jitter).1);
    }
    // ACKs of a burst are of one moment: eight of one segment each are too few.
    let mut state = HyStart::START;
    for latest_rtt_us in [[60_000; 8], [80_000; 8], [80_000; 8]].into_iter().flatten() {
        assert!(!state.ends_with(&Ack {
            latest_rtt_us,
            acked_segments: 1,
            rapid_start_allowed: false
        }));
    }
}

#[test]
fn rapid_start_ends_for_good_once_the_rtt_rises_by_a_16th_of_the_threshold() {
    let window = Window {
        cwnd_segments: 100,
        ssthresh_segments: INFINITE_SSTHRESH,
        clamp_segments: u32::MAX,
        max_ssthresh_segments: u32::MAX,
        credit_q16: 0,
    };
    let mut state = HyStart::START;
    let mut group = |latest_rtt_us| {
        for _ in 0..8 {
            let ack = Ack { latest_rtt_us, acked_segments: 4, rapid_start_allowed: true };
            assert!(!state.ends_with(&ack));
        }
        (state.is_rapid(), state.is_conservative(), state.growth_segments(&window, 4))
    };
    assert_eq!(group(64_000), (true, false, 8));
    // The threshold is 8 ms.
    assert_eq!(group(64_499), (true, false, 8));
    assert_eq!(group(64_500), (false, true, 4));
    assert_eq!(group(64_000), (false, false, 4));
    assert_eq!(group(64_499), (false, false, 4), "below the threshold itself");
}

#[test]
fn a_flow_that_is_not_paced_or_that_resumes_has_no_rapid_start() {
    let mut state = HyStart::START;
    assert_eq!(samples(&mut state, [64_000; 8]), (false, false));
    assert!(!state.is_rapid());
    let mut state = HyStart::RESUMED;
    let ack = Ack { latest_rtt_us: 64_000, acked_segments: 4, rapid_start_allowed: true };
    assert!(!state.ends_with(&ack) && !state.is_rapid());
}

#[test]
fn limited_slow_start_is_not_rapid() {
    let mut state = HyStart::START;
    let ack = Ack { latest_rtt_us: 64_000, acked_segments: 4, rapid_start_allowed: true };
    assert!(!state.ends_with(&ack) && state.is_rapid());
    let window = |cwnd_segments| Window {
        cwnd_segments,
        ssthresh_segments: INFINITE_SSTHRESH,
        clamp_segments: u32::MAX,
        max_ssthresh_segments: 100,
        credit_q16: 0,
    };
    assert_eq!(state.growth_segments(&window(99), 4), 8);
    assert_eq!(state.growth_segments(&window(100), 4), 4);
}

#[test]
fn thresholds_are_within_their_bounds() {
    let thresholds = [0, 8_000, 64_000, 200_000, u32::MAX].map(threshold_us);
    assert_eq!(thresholds, [4_000, 4_000, 8_000, 16_000, 16_000]);
    assert!(HyStart::is_for(INFINITE_SSTHRESH) && !HyStart::is_for(INFINITE_SSTHRESH - 1));
}

#[test]
fn the_window_grows_by_a_quarter_in_a_round() {
    let mut window = Window {
        cwnd_segments: 400,
        ssthresh_segments: INFINITE_SSTHRESH,
        clamp_segments: u32::MAX,
        max_ssthresh_segments: u32::MAX,
        credit_q16: 0,
    };
    for _ in 0..400 {
        window = grow(window, 1);
    }
    assert!((485..=500).contains(&window.cwnd_segments), "{}", window.cwnd_segments);
    for cwnd_segments in [1, 2, u32::MAX] {
        let huge = Window { cwnd_segments, credit_q16: 0, ..window };
        let most = MAX_LAW_INCREASE_Q16 / ONE_Q16;
        let after = grow(huge, cwnd_segments).cwnd_segments;
        assert!(after >= cwnd_segments && after - cwnd_segments <= most.max(1), "{cwnd_segments}");
    }
}

#[test]
fn css_leaves_limited_slow_start_as_it_is() {
    let mut state = HyStart::START;
    samples(&mut state, [64_000; 8]);
    samples(&mut state, [73_000; 8]);
    let window = |max_ssthresh_segments| Window {
        cwnd_segments: 1_000,
        ssthresh_segments: INFINITE_SSTHRESH,
        clamp_segments: u32::MAX,
        max_ssthresh_segments,
        credit_q16: 0,
    };
    assert!(state.grows_conservatively(&window(u32::MAX)));
    assert!(!state.grows_conservatively(&window(100)));
}
