//! Tables as reviewed, in `tests/simulate/` of the repository; `WAD_BLESS=1` writes them anew.

use std::fs;

use clap::Parser as _;

use super::{Simulated, page::Page, picture, simulate};
use crate::{
    cli::{Cli, Command},
    reviewed,
};

fn simulated(words: &str) -> Simulated {
    let cli = Cli::try_parse_from(["wad", "simulate"].into_iter().chain(words.split(' ')));
    let Command::Simulate(args) = cli.expect("right").command else { panic!("another command") };
    simulate(&args).expect("simulated")
}

fn check(name: &str, words: &str) {
    let text = format!("$ wad simulate {words}\n{}", Page(&simulated(words)));
    reviewed::check("simulate", name, &text);
}

#[test]
fn tables_are_as_reviewed() {
    check(
        "one-loss",
        "--law reno,wad_aimd,wad_highspeed,wad_scalable --rate 10Gbit/s --rtt 100ms --mtu 9000 \
         --lose 20000 --for 120s",
    );
    check(
        "several",
        "--law cubic,wad_highspeed --rate 1Gbit --rtt 50ms --queue 0.25BDP --flows 4 --for 30s",
    );
    check("bounded", "--law wad_scalable --rate 400Gbit --rtt 200ms --mtu 9000 --for 20s");
}

#[test]
fn a_seed_gives_the_same_and_another_one_another() {
    let of_seed = |seed: u32| {
        let words = format!("--law cubic --rate 200Mbit --rtt 40ms --loss 1e-4 --seed {seed}");
        serde_json::to_string(&simulated(&words)).unwrap()
    };
    assert_eq!(of_seed(7), of_seed(7));
    assert_ne!(of_seed(7), of_seed(8));
}

#[test]
fn each_law_has_its_lines_in_the_picture() {
    let all = simulated("--law cubic,wad_leaky --rate 200Mbit --rtt 40ms --for 10s");
    let svg = picture::render(&all);
    assert_eq!(svg.matches("<path class=\"line\"").count(), 8, "{svg}");
    assert!(svg.contains(">wad_leaky</text>") && svg.contains("goodput (Mbit/s)"));
    assert!(!svg.contains("NaN"));
}

#[test]
fn every_law_is_simulated() {
    for law in super::sender::law_names() {
        let words = format!("--law {law} --rate 100Mbit --rtt 20ms --queue 0.5BDP --for 20s");
        let all = simulated(&words);
        let part = all.laws[0].bits_per_second / all.carries_bits_per_second;
        assert!((0.7..=1.0).contains(&part), "{law}: {part}");
    }
}

#[test]
fn a_measured_path_has_no_larger_buffers_than_max_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wad.toml");
    let text = "[limits]\nmax_buffer = '2MiB'\n\
                [[path]]\nname = 'p'\nremote = '192.0.2.0/24'\nmode = 'measured'\n\
                sndbuf = 'auto'\nrcvbuf = 'auto'\n";
    fs::write(&file, text).unwrap();
    let words = format!("--config {} --path p --rate 1Gbit --rtt 100ms --for 20s", file.display());
    let rate = simulated(&words).laws[0].last_half_bits_per_second;
    assert!((0.97..1.0).contains(&(rate / (2_097_152.0 * 8.0 / 0.1))), "{rate}");
}

#[test]
fn a_path_of_a_file_has_its_own_policy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wad.toml");
    let text = "[[path]]\nname = 'tokyo'\nremote = '192.0.2.0/24'\nbandwidth = '1Gbit'\n\
                rtt = '100ms'\nsndbuf = 'auto'\nrcvbuf = 'auto'\ncongestion = 'wad_aimd'\n\
                initial_ssthresh = 'auto'\n\
                [[path]]\nname = 'plain'\nremote = '198.51.100.0/24'\n";
    fs::write(&file, text).unwrap();
    let words = |more: &str| format!("--config {} {more}", file.display());
    let all = simulated(&words("--path tokyo --law cubic --for 20s"));
    let [own, cubic] = &all.laws[..] else { panic!("two") };
    assert_eq!((own.law.as_str(), cubic.law.as_str()), ("tokyo (wad_aimd)", "cubic"));
    assert!((all.rate_bits_per_second - 1e9).abs() < 1.0 && own.lost_segments == 0);
    // A connection of default buffers has 3 MiB in a round trip.
    let plain = simulated(&words("--path plain --rate 1Gbit --rtt 100ms --for 20s"));
    let rate = plain.laws[0].last_half_bits_per_second;
    assert!((0.97..1.0).contains(&(rate / (3_145_728.0 * 8.0 / 0.1))), "{rate}");
    let error = |words: &str| {
        let cli = Cli::try_parse_from(["wad", "simulate"].into_iter().chain(words.split(' ')));
        let Command::Simulate(args) = cli.unwrap().command else { panic!("another command") };
        simulate(&args).unwrap_err().to_string()
    };
    assert!(error(&words("--path plain")).contains("give --rate"));
    assert!(error(&words("--path none")).contains("is called \"none\""));
}
