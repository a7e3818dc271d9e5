//! The comparison is repeated with the flows simulated, by the laws of `wad-common`:
//! how well a few pairs under the same losses tell whether two laws are the same.

use std::collections::VecDeque;

use wad_common::law::{Aimd, Window, highspeed, scalable};
use wad_testbed::random::Random;

use super::{
    CASES, Case, PAIRS, SETTLED_LOSSES,
    pairs::{Pairs, Ratio},
};

type Law = fn(u32) -> Aimd;

/// A flow whose window is all that holds it back, of an RTT that never changes: the
/// unit of time.
struct Flow {
    law: Law,
    window: Window,
    losses: Random,
    probability: f64,
    now_rtts: f64,
    /// Tells when each segment's ACK is due, and whether it is lost instead.
    under_way: VecDeque<(f64, bool)>,
    sent: u64,
    acknowledged: u64,
    /// The number of the segment that ends the recovery.
    recovers_at: u64,
    lost: u32,
}

impl Flow {
    fn start(law: Law, cwnd_segments: u32, probability: f64, seed: u64) -> Self {
        let window = Window {
            cwnd_segments,
            ssthresh_segments: cwnd_segments,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: u32::MAX,
            credit_q16: 0,
        };
        Self {
            law,
            window,
            losses: Random::new(seed),
            probability,
            now_rtts: 0.0,
            under_way: VecDeque::new(),
            sent: 0,
            acknowledged: 0,
            recovers_at: 0,
            lost: 0,
        }
    }

    /// Returns the mean window, by time, until the flow has had so many losses more.
    fn mean_window(&mut self, losses: u32) -> f64 {
        let (until, begin, mut sum) = (self.lost + losses, self.now_rtts, 0.0);
        while self.lost < until {
            let (cwnd, before) = (self.window.cwnd_segments, self.now_rtts);
            self.step();
            sum += f64::from(cwnd) * (self.now_rtts - before);
        }
        sum / (self.now_rtts - begin)
    }

    /// Sends what the window allows, and gets the next ACK.
    fn step(&mut self) {
        while self.under_way.len() < self.window.cwnd_segments as usize {
            let is_lost = self.losses.chance(self.probability);
            self.under_way.push_back((self.now_rtts + 1.0, is_lost));
            self.sent += 1;
        }
        let (due, is_lost) = self.under_way.pop_front().expect("a window is never empty");
        self.now_rtts = due;
        let in_recovery = self.acknowledged < self.recovers_at;
        self.acknowledged += 1;
        let law = (self.law)(self.window.cwnd_segments);
        self.lost += u32::from(is_lost);
        if is_lost && !in_recovery {
            self.recovers_at = self.sent;
            let kept = law.on_congestion(self.window.cwnd_segments);
            self.window.cwnd_segments = kept;
            self.window.ssthresh_segments = kept;
        } else if !in_recovery {
            self.window = law.on_ack(self.window, 1);
        }
    }
}

/// Compares as many pairs as are run, each with these seeds for both sides.
fn compare(case: &Case, [ours, kernels]: [Law; 2], seeds: impl Fn(u64) -> [u64; 2]) -> Ratio {
    let turn = |law, begin: f64, seed| {
        let mut flow = Flow::start(law, (begin * case.expected_segments) as u32, case.loss, seed);
        flow.mean_window(SETTLED_LOSSES);
        flow.mean_window(case.losses)
    };
    let mut pairs = Pairs::default();
    for pair in 1..=PAIRS {
        // Now one begins with the larger window, now the other.
        let begin = if pair % 2 == 0 { [0.1, 0.15] } else { [0.15, 0.1] };
        let [our_seed, kernels_seed] = seeds(pair);
        pairs.add(turn(ours, begin[0], our_seed), turn(kernels, begin[1], kernels_seed));
    }
    pairs.ratio()
}

const fn the_same(pair: u64) -> [u64; 2] {
    [pair, pair]
}

const fn others(pair: u64) -> [u64; 2] {
    [pair, pair + 1000]
}

/// Returns the law of a case, and the same with an increase larger by 10%.
fn laws(case: &Case) -> [Law; 2] {
    const fn faster(law: Aimd) -> Aimd {
        Aimd { increase_q16: law.increase_q16 / 10 * 11, ..law }
    }
    match case.ours {
        "wad_aimd" => [|_| Aimd::STANDARD, |_| faster(Aimd::STANDARD)],
        "wad_highspeed" => [highspeed::response, |cwnd| faster(highspeed::response(cwnd))],
        "wad_scalable" => [scalable::response, |cwnd| faster(scalable::response(cwnd))],
        other => panic!("{other} is not simulated"),
    }
}

/// Returns how the mean window of a law goes with its increase, by its response
/// function: the square root; 1 / 1.2, as the increase goes with w^0.8 (RFC 3649
/// section 5); in proportion. None near the windows up to which a law is RFC 5681.
fn exponent(case: &Case) -> Option<f64> {
    match case.ours {
        "wad_aimd" => Some(1.0 / 2.0),
        _ if case.loss > 5e-4 => None,
        "wad_highspeed" => Some(1.0 / 1.2),
        _ => Some(1.0),
    }
}

#[test]
fn the_same_law_is_known_to_be_the_same() {
    for case in &CASES {
        let [law, _] = laws(case);
        let coupled = compare(case, [law, law], the_same);
        let independent = compare(case, [law, law], others);
        let what =
            format!("{} at {:e}: {coupled}; independent {independent}", case.ours, case.loss);
        println!("{what}");
        assert!(coupled.low <= 1.0 && 1.0 <= coupled.high, "{what}");
        assert!(coupled.high - coupled.low < 2.0 * 0.03, "{what}");
        assert!(independent.high - independent.low > 3.0 * (coupled.high - coupled.low), "{what}");
    }
}

#[test]
fn a_law_that_is_a_tenth_faster_is_told_from_it() {
    for case in &CASES {
        let [law, faster] = laws(case);
        let ratio = compare(case, [faster, law], the_same);
        println!("{} at {:e}: {ratio}", case.ours, case.loss);
        assert!(ratio.low > 1.01, "{} at {:e}: {ratio}", case.ours, case.loss);
        if let Some(exponent) = exponent(case) {
            let expected = 1.1_f64.powf(exponent);
            assert!((ratio.ratio - expected).abs() < 0.02, "{ratio}, not {expected}");
        }
    }
}

/// `tcp_scalable.c` takes an eighth of the window rounded down, `wad_scalable` leaves
/// seven eighths rounded down. Where an eighth is ten segments, that shows.
#[test]
fn what_the_kernel_rounds_shows_in_small_windows() {
    fn kernels(cwnd: u32) -> Aimd {
        let kept = cwnd - cwnd / 8;
        Aimd { keep_q16: (kept << 16).div_ceil(cwnd), ..scalable::response(cwnd) }
    }
    for case in CASES.iter().filter(|case| case.ours == "wad_scalable") {
        let ratio = compare(case, [scalable::response, kernels], the_same);
        println!("{} at {:e}: {ratio}", case.ours, case.loss);
        let expected = if case.loss > 5e-4 { 0.93..0.98 } else { 0.97..1.0 };
        assert!(expected.contains(&ratio.ratio), "{} at {:e}: {ratio}", case.ours, case.loss);
    }
}
