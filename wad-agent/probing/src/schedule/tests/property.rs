//! Whatever the tasks, the host and the tools do: no two runs have conflicting locks, no
//! period goes without its row, and none has two.

use proptest::{prelude::*, sample::select};

use super::{
    oracle,
    world::{HOUR, Job, Kind, World},
};
use std::time::Duration;

/// PROPTEST_CASES=10000 tries so many sets of tasks, which takes minutes.
pub fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if asked { usual.cases } else { 64 };
    ProptestConfig { cases, failure_persistence: None, ..usual }
}

fn job() -> impl Strategy<Value = Job> {
    let kind = select(vec![
        Kind::Ping,
        Kind::Ping,
        Kind::Ping,
        Kind::Bandwidth,
        Kind::Busy,
        Kind::Command,
        Kind::Command,
    ]);
    let parts = [0..10_u32, 0..100_u32, 0..20_u32];
    (0..100_u8, kind, 20..3600_u64, parts, 0..50_u32).prop_map(
        |(path, kind, every_seconds, parts, rest)| Job { path, kind, every_seconds, parts, rest },
    )
}

fn times<T: std::fmt::Debug>(
    what: impl Strategy<Value = T>,
    most: usize,
) -> impl Strategy<Value = Vec<(Duration, T)>> {
    let at = (0..HOUR.as_millis() as u64).prop_map(Duration::from_millis);
    proptest::collection::vec((at, what), 0..=most)
}

fn world() -> impl Strategy<Value = World> {
    let jobs = proptest::collection::vec(job(), 1..200);
    let lengths = (1..1200_u64).prop_map(Duration::from_secs);
    let (suspended, replaced, asked) =
        (times(lengths, 3), times(0..200_usize, 5), times(0..200_usize, 5));
    (any::<u64>(), jobs, suspended, replaced, asked).prop_map(
        |(seed, jobs, suspended, replaced, asked)| World { seed, jobs, suspended, replaced, asked },
    )
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn each_period_has_its_row_and_no_locks_meet(world in world()) {
        oracle::judge(&world, &world.live());
    }
}
