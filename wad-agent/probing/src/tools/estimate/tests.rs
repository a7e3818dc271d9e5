use super::*;

/// A path of 100 MB/s and 40 ms, of whose state there is a sample each 5 ms.
const RATE: u64 = 100_000_000;
const RTT_US: u32 = 40_000;
const STEP: Duration = Duration::from_millis(5);

/// A connection as the kernel would tell of it.
struct Connection {
    sample: Sample,
    estimate: Estimate,
}

impl Connection {
    fn new(is_bbr: bool) -> Self {
        let info = TcpInfo { rtt_us: RTT_US, min_rtt_us: RTT_US, ..TcpInfo::default() };
        let sample = Sample { at: Duration::ZERO, info, bbr: is_bbr.then_some(Bbr::STARTUP) };
        Self { sample, estimate: Estimate::default() }
    }

    /// Goes on for a step at these rates in bytes a second: the mean, and what the kernel says.
    fn step(&mut self, mean: u64, said: u64) -> bool {
        self.sample.at += STEP;
        self.sample.info.delivered_bytes += mean * STEP.as_millis() as u64 / 1000;
        self.sample.info.busy_us += STEP.as_micros() as u64;
        self.sample.info.delivery_bytes_per_second = said;
        self.estimate.take(self.sample)
    }

    /// Goes on until the estimate stands, or so many steps; returns how long it took.
    fn until(&mut self, most: usize, mean: u64, said: u64) -> Option<Duration> {
        let begun = self.sample.at;
        for _ in 0..most {
            if self.step(mean, said) {
                return Some(self.sample.at - begun);
            }
        }
        None
    }

    fn leave_startup(&mut self) {
        self.sample.bbr = Some(Bbr::PROBE_BW);
    }

    fn bandwidth(self, stands: bool) -> (f64, Confidence) {
        let found = self.estimate.bandwidth(stands, "bbr".to_owned()).unwrap();
        (found.bits_per_second, found.confidence)
    }
}

#[test]
fn an_estimate_stands_after_ten_round_trips_at_the_rate() {
    let mut connection = Connection::new(true);
    // In STARTUP, however long.
    assert_eq!(connection.until(100, RATE / 20, RATE / 10), None);
    // The last three are at the rate: the kernel has seen no more.
    assert_eq!(connection.until(24, RATE, RATE + RATE / 50), None);
    connection.leave_startup();
    let took = connection.until(1000, RATE, RATE + RATE / 50).unwrap();
    let expected = Duration::from_micros(7 * u64::from(RTT_US));
    assert!((expected..expected + 2 * STEP).contains(&took), "{took:?}");
    assert_eq!(connection.bandwidth(true), (8.0 * 1.02e8, Confidence::Converged));
}

#[test]
fn what_was_before_the_pipe_was_full_does_not_count() {
    let mut connection = Connection::new(true);
    assert_eq!(connection.until(24, RATE / 5, RATE / 5), None);
    connection.leave_startup();
    connection.until(1000, RATE, RATE).unwrap();
    assert_eq!(connection.bandwidth(true), (8.0 * 1e8, Confidence::Converged));
}

#[test]
fn on_short_paths_a_fifth_of_a_second_passes() {
    let mut connection = Connection::new(true);
    connection.sample.info.min_rtt_us = 1000;
    connection.leave_startup();
    let took = connection.until(1000, RATE, RATE).unwrap();
    assert!((LEAST..LEAST + 2 * STEP).contains(&took), "{took:?}");
}

#[test]
fn on_long_paths_less_than_a_second_of_the_rate_will_do() {
    let mut connection = Connection::new(true);
    connection.sample.info.min_rtt_us = 200_000;
    connection.until(80, RATE, RATE);
    connection.leave_startup();
    // 0.4 s of them have passed.
    let took = connection.until(1000, RATE, RATE).unwrap();
    let expected = Duration::from_millis(3 * 200 - 400);
    assert!((expected..expected + 2 * STEP).contains(&took), "{took:?}");
}

#[test]
fn a_burst_that_a_policer_lets_through_is_not_the_rate() {
    let mut connection = Connection::new(true);
    connection.leave_startup();
    assert_eq!(connection.until(30, RATE, RATE), None);
    // Losses, and the kernel still tells of the burst.
    assert_eq!(connection.until(30, RATE / 5, RATE), None);
    let took = connection.until(1000, RATE / 5, RATE / 5).unwrap();
    assert!(took > 5 * STEP, "{took:?}");
    assert_eq!(connection.bandwidth(true), (8.0 * 2e7, Confidence::Converged));
    // Where a bound comes before, it is the mean.
    let mut connection = Connection::new(true);
    connection.leave_startup();
    connection.until(200, RATE / 5, RATE);
    assert_eq!(connection.bandwidth(false), (8.0 * 2e7, Confidence::Capped));
}

#[test]
fn limits_other_than_the_path_are_named() {
    let limited = |hold: fn(&mut TcpInfo)| {
        let mut connection = Connection::new(true);
        connection.leave_startup();
        let stands = (0..1000).any(|_| {
            hold(&mut connection.sample.info);
            connection.step(RATE, RATE)
        });
        assert!(stands);
        connection.bandwidth(true).1
    };
    assert_eq!(limited(|info| info.receiver_limited_us += 1000), Confidence::ReceiverLimited);
    assert_eq!(limited(|info| info.send_buffer_limited_us += 1000), Confidence::ApplicationLimited);
    assert_eq!(limited(|info| info.receiver_limited_us += 100), Confidence::Converged);
    let mut connection = Connection::new(true);
    connection.sample.info.is_app_limited = true;
    assert_eq!(connection.until(100, RATE, RATE), None);
    assert_eq!(connection.bandwidth(false), (8.0 * 1e8, Confidence::ApplicationLimited));
}

#[test]
fn without_bbr_a_bound_ends_it() {
    let mut connection = Connection::new(false);
    assert_eq!(connection.until(100, RATE / 2, RATE / 2), None);
    assert_eq!(connection.until(100, RATE, RATE), None);
    // What was at the beginning does not count.
    assert_eq!(connection.bandwidth(false), (8.0 * 1e8, Confidence::Capped));
    assert_eq!(Estimate::default().bandwidth(false, "cubic".to_owned()), None);
}

#[test]
fn in_startup_alone_it_is_what_was_carried() {
    let mut connection = Connection::new(true);
    connection.until(3, RATE / 4, RATE / 4);
    assert_eq!(connection.bandwidth(false), (8.0 * 2.5e7, Confidence::Capped));
}

#[test]
fn a_moment_of_startup_in_which_nothing_came_is_not_all_of_it() {
    let mut connection = Connection::new(true);
    connection.sample.info.min_rtt_us = 1000;
    connection.until(4, RATE / 4, RATE / 4);
    connection.step(0, RATE / 4);
    assert_eq!(connection.bandwidth(false), (8.0 * 1.875e7, Confidence::Capped));
}

#[test]
fn an_estimate_stands_in_startup_where_it_was_kept_near_the_rate() {
    let mut connection = Connection::new(true);
    assert_eq!(connection.until(20, RATE / 2, RATE / 2), None);
    assert_eq!(
        connection.estimate.bound_bytes_per_second(),
        Some((RATE as f64 / 2.0 * 1.15) as u64)
    );
    // There is more.
    assert_eq!(connection.until(8, RATE, RATE), None);
    assert_eq!(connection.estimate.bound_bytes_per_second(), None);
    let took = connection.until(1000, RATE, RATE).unwrap();
    assert!(took >= 4 * Duration::from_micros(RTT_US.into()), "{took:?}");
    assert_eq!(connection.bandwidth(true), (8.0 * 1e8, Confidence::Converged));
}
