//! Whatever a file holds, it is taken or refused, and never crashes.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use proptest::prelude::*;

use super::{Config, ConfigError, testing::host};

/// Scraps of which files that come close are made.
const SCRAPS: &[&str] = &[
    "[[path]]\n",
    "[path]\n",
    "[agent]\n",
    "[log]\n",
    "[[derived]]\n",
    "value = ",
    "above = ",
    "\"8 * HCDataOctetsOut / ElapsedSecs\"\n",
    "name = ",
    "remote = ",
    "local = ",
    "remote_port = ",
    "local_port = ",
    "user = ",
    "cgroup = ",
    "unit = ",
    "pods = ",
    "{ namespace = \"transfer\", labels = { app = \"dtn\" } }\n",
    "mark = ",
    "interface = ",
    "\"eth*\"\n",
    "\"0x10/0xff\"\n",
    "\"a.slice/*.service\"\n",
    "\"globus\"\n",
    "\"50000-51000\"\n",
    "[443, \"50000-51000\"]\n",
    "rtt = ",
    "sndbuf = ",
    "additive_increase = ",
    "binomial = ",
    "wadmd = ",
    "allow = ",
    "bandwidth = ",
    "congestion = ",
    "loss = ",
    "reorder = ",
    "dedicated = ",
    "equivalent_streams = ",
    "initial_ssthresh = ",
    "max_cwnd = ",
    "pacing = ",
    "dscp = ",
    "\"auto\"\n",
    "\"bob\"\n",
    "\"10.0.0.0/8\"\n",
    "[\"::/0\", \"10.1.1.1\"]\n",
    "\"4MiB\"\n",
    "\"622Mbit\"\n",
    "\"aggressive\"\n",
    "\"leaky\"\n",
    "[\"bbr\", \"wad_aimd\"]\n",
    "\"wad_scalable\"\n",
    "\"wad_binomial\"\n",
    "\"iiad\"\n",
    "1\n",
    "0.3\n",
    "nan\n",
    "-1\n",
    "{}\n",
    "[]\n",
    "\"",
    "'''",
    "\u{202e}",
    "\u{e9}",
    "\0",
    "\r\n",
    "\t",
    "=",
    ".",
    "#",
];

proptest! {
    #[test]
    fn arbitrary_text_is_no_panic(text in any::<String>()) {
        let _ = Config::parse("wad.toml", &text, &host());
    }

    #[test]
    fn arbitrary_scraps_are_no_panic(
        scraps in prop::collection::vec(prop::sample::select(SCRAPS), 0..40)
    ) {
        if let Err(ConfigError::Invalid { errors, report, .. }) =
            Config::parse("wad.toml", &scraps.concat(), &host())
        {
            prop_assert!(errors > 0);
            prop_assert!(report.len() < 100_000);
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..1_000)) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("writable");
        let _ = Config::load(file.path(), &host());
    }
}

/// Debug builds are ten times as slow as what is shipped: the bound is for
/// quadratic work, which would take minutes.
#[test]
fn a_hundred_thousand_paths_are_read_in_linear_time() {
    let text = hundred_thousand_paths();
    let start = processor_time();
    let config = Config::parse("wad.toml", &text, &host()).expect("valid");
    let took = processor_time() - start;
    assert_eq!(config.paths.len(), 100_000);
    println!("{} bytes in {took:?}", text.len());
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// Returns the processor time of this thread: other tests run beside it.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock of each thread").into()
}

fn hundred_thousand_paths() -> String {
    (0..100_000_u32)
        .map(|n| {
            let [_, a, b, c] = n.to_be_bytes();
            format!(
                "[[path]]\nname = \"path-{n}\"\n\
                 remote = [\"10.{a}.{b}.{c}\", \"2001:db8:{a:x}:{b:x}{c:02x}::/64\"]\n\
                 sndbuf = \"3751239\"\nrcvbuf = \"6571899\"\ncongestion = \"wad_aimd\"\n\
                 additive_increase = 6\ndecrease = 0.3\nallow = \"aggressive\"\n\n"
            )
        })
        .collect()
}
