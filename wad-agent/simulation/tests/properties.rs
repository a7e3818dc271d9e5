//! At any time on any path no segment comes from nowhere or is forgotten, and windows stay within
//! their bounds.

use proptest::prelude::*;
use wad_common::{
    control::{Control, WindowSize},
    law::MIN_WINDOW_SEGMENTS,
};
use wad_simulation::{Algorithm, Path, Sender, World};

const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::Reno,
    Algorithm::KernelCubic,
    Algorithm::Aimd,
    Algorithm::HighSpeed,
    Algorithm::Scalable,
    Algorithm::Binomial,
    Algorithm::Leaky,
    Algorithm::Delay,
    Algorithm::Dedicated,
];
const MOST_SEGMENTS: u32 = 400;

fn sender(algorithm: Algorithm, is_bounded: bool) -> Sender {
    let max_cwnd = WindowSize { segments: if is_bounded { MOST_SEGMENTS } else { 0 }, bytes: 0 };
    let dedicated = algorithm == Algorithm::Dedicated;
    let control = Control {
        max_cwnd: if dedicated { WindowSize { segments: 100, bytes: 0 } } else { max_cwnd },
        dedicated_bytes_per_second: if dedicated { 1_000_000 } else { 0 },
        ..Control::STANDARD
    };
    Sender::new(algorithm, control)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn segments_are_conserved_and_windows_bounded(
        (mbps, rtt_ms, queue_bdp) in (1.0_f64..400.0, 1.0_f64..150.0, 0.0_f64..2.0),
        (loss, mtu_bytes, seed) in (
            prop_oneof![Just(0.0), 1e-5_f64..0.1, Just(0.5)], 576_u32..9001, 0_u64..1000,
        ),
        which in prop::collection::vec(0_usize..ALGORITHMS.len(), 1..4),
        is_bounded: bool,
        lose in prop::collection::vec(1_u64..3000, 0..5),
    ) {
        let queue_bytes = (mbps * 1e3 * rtt_ms / 8.0 * queue_bdp) as u64;
        let path = Path::new(mbps * 1e6, rtt_ms / 1e3, queue_bytes).for_flows(which.len() as u32);
        let path = Path { loss, mtu_bytes, seed, ..path };
        let mut world = World::new(path, &lose);
        for (number, &algorithm) in which.iter().enumerate() {
            let sender = sender(ALGORITHMS[algorithm], is_bounded);
            world = world.with(&sender, which.len() as u32, number as f64 * 0.1);
        }
        let mut before = vec![0; which.len()];
        for step in 1..=60 {
            world.run(f64::from(step) * 0.05);
            for (number, flow) in world.flows.iter().enumerate() {
                let tcp = flow.tcp();
                let in_flight = u64::from(tcp.in_flight_segments);
                prop_assert_eq!(flow.sent(), flow.delivered() + flow.lost() + in_flight);
                prop_assert!(flow.resent() <= flow.lost());
                let arrived = world.arrived(number);
                prop_assert!(arrived >= before[number].max(flow.delivered()));
                before[number] = arrived;
                prop_assert!(tcp.cwnd_segments >= 1);
                prop_assert!(tcp.ssthresh_segments >= MIN_WINDOW_SEGMENTS);
                let is_ours =
                    !matches!(ALGORITHMS[which[number]], Algorithm::Reno | Algorithm::KernelCubic);
                prop_assert!(!is_bounded || !is_ours || tcp.cwnd_segments <= MOST_SEGMENTS);
            }
            let most = queue_bytes.max(mtu_bytes.into());
            prop_assert!(world.most_queue_bytes() <= most + 1, "{}", world.most_queue_bytes());
        }
        let carried: u64 = before.iter().sum();
        let most = 3.0 * mbps * 1e6 / 8.0 / f64::from(mtu_bytes) + 1.0;
        prop_assert!(carried as f64 <= most, "{} of {}", carried, most);
    }
}
