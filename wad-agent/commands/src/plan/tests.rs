//! Plans and simulated flows as reviewed: each text is compared with the one in
//! `tests/plan/` of the repository. With `WAD_BLESS=1` they are written anew.

use std::{fmt::Write as _, iter};

use clap::Parser as _;
use wad_common::law::{Aimd, Binomial, Window, aimd::ONE_Q16, highspeed, scalable};
use wad_policy::{
    config::{Config, Congestion, Host, Resume},
    law::Law,
    response::Response,
};

use super::{
    Arguments, Plan, Question,
    arguments::{Rate, Rtt},
    page::Page,
    policy::{Expected, Policies},
    simulation::{Bottleneck, Flow, Losses, What, full, mean_window_segments, recovery_rtts},
};
use crate::{
    cli::{Cli, Command},
    reviewed,
};

/// Compares a text with the reviewed one.
pub fn check(name: &str, text: &str) {
    reviewed::check("plan", name, text);
}

fn question(rate: &str, rtt: &str, loss: Option<f64>, mtu_bytes: u32) -> Question {
    let rate = Rate::parse(rate).expect("a rate");
    let rtt = Rtt::parse(rtt).expect("a time");
    Question::of(&Arguments { rate, rtt, loss, mtu: mtu_bytes, streams: 1, json: false })
}

fn questions() -> Vec<(&'static str, Question)> {
    vec![
        ("oc12", question("622Mbit", "70ms", None, 1500)),
        ("10g-lossy", question("10Gbit", "120ms", Some(1e-5), 1500)),
        ("400g", question("400Gbit", "120ms", Some(1e-7), 1500)),
        ("400g-jumbo", question("400Gbit", "120ms", Some(1e-7), 9000)),
        ("lan", question("100Mbit", "1ms", Some(1e-6), 1500)),
        ("oc12-3-streams", Question { streams: 3, ..question("622Mbit", "70ms", None, 1500) }),
    ]
}

#[test]
fn plans_are_as_reviewed() {
    for (name, question) in questions() {
        check(name, &Page { plan: &Plan::of(&question) }.to_string());
    }
}

#[test]
fn json_is_as_reviewed() {
    let plan = Plan::of(&question("622Mbit", "70ms", Some(1e-4), 1500));
    check("json", &(serde_json::to_string_pretty(&plan).expect("JSON") + "\n"));
}

/// Returns what `wad check` makes of a plan's policies.
fn checked(question: &Question) -> Vec<Config> {
    let Policies { fair, aggressive, .. } = Policies::of(question);
    iter::once(fair).chain(aggressive).map(|toml| checked_toml(&toml)).collect()
}

fn checked_toml(toml: &str) -> Config {
    let host = Host {
        congestion_controls: vec!["reno".to_owned(), "cubic".to_owned()],
        ..Host::default()
    };
    match Config::parse("wad.toml", toml, &host) {
        Ok(config) => config,
        Err(error) => panic!("{toml}: {error}"),
    }
}

#[test]
fn the_policy_means_what_the_plan_says() {
    for (name, question) in questions() {
        // A LAN is not to get less than the kernel's own.
        let mut laws = Vec::new();
        for config in checked(&question) {
            let path = &config.paths[0];
            let of_all = u64::from(path.origin.streams.max(1)) * question.auto_buffer_bytes();
            let planned = (name != "lan").then_some(of_all.min((1 << 30) - 1));
            assert_eq!(path.sndbuf_bytes.map(u64::from), planned, "{name}");
            assert_eq!(path.rcvbuf_bytes.map(u64::from), planned, "{name}");
            assert_eq!(path.divide, question.streams > 1, "{name}");
            laws.push(path.congestion.clone());
        }
        // All of these lose more than four CUBIC flows fill them with.
        let faster = if question.loss.is_some() { Law::Leaky } else { Law::Cubic };
        let ours = [Law::Cubic, faster].map(|law| Some(Congestion::Ours(law)));
        assert_eq!(laws, if name == "lan" { vec![None] } else { ours.to_vec() }, "{name}");
    }
}

#[test]
fn a_path_beyond_the_largest_buffer_is_not_divided() {
    for (rtt, divides) in [("60ms", true), ("100ms", false)] {
        let question = Question { streams: 8, ..question("100Gbit", rtt, None, 1500) };
        for config in checked(&question) {
            assert_eq!(config.paths[0].divide, divides, "{rtt}");
        }
    }
}

#[test]
fn the_share_that_a_plan_tells_of_is_that_of_check() {
    for (rate, rtt) in [("622Mbit", "70ms"), ("1Gbit", "180ms"), ("10Gbit", "33ms")] {
        let question = question(rate, rtt, None, 1500);
        let toml = Policies::of(&question).aggressive.expect("it recovers slowly");
        let shares = checked_toml(&toml).paths[0].shares().expect("losses say it");
        let told = format!("with {} times the share of one", shares.most());
        assert!(toml.contains(&told), "{told}\n{toml}");
    }
}

#[test]
fn streams_divide_nothing_where_the_kernels_buffers_are_large_enough() {
    let lan = Question { streams: 3, ..question("100Mbit", "1ms", None, 1500) };
    assert!(!checked(&lan)[0].paths[0].divide, "{}", Policies::of(&lan).fair);
}

#[test]
fn a_path_that_loses_more_than_four_flows_fill_it_with_gets_the_law_for_that() {
    for (loss, is_leaky) in [(1e-10, false), (1e-6, true), (0.009, true), (0.02, false)] {
        let policies = Policies::of(&question("10Gbit", "120ms", Some(loss), 1500));
        let config = checked_toml(&policies.aggressive.expect("it recovers slowly"));
        let law = if is_leaky { Law::Leaky } else { Law::Cubic };
        assert_eq!(config.paths[0].congestion, Some(Congestion::Ours(law)));
        let rate = policies.expected.aggressive_bits_per_second;
        assert_eq!(rate.is_some_and(|rate| rate > 9e9), loss < 0.01, "{rate:?} at {loss}");
    }
}

/// CUBIC's mean window at one packet in a million is 6,795 segments at 120 ms, of which 600 Mbit/s has
/// 6,215, and 10 Gbit/s 103,591.
#[test]
fn as_many_flows_as_fill_the_path_are_pasted() {
    for (rate, loss, flows) in [
        ("600Mbit", None, 2),
        ("1500Mbit", None, 3),
        ("10Gbit", None, 4),
        ("600Mbit", Some(5e-6), 4),
        ("10Gbit", Some(0.02), 4),
    ] {
        let policies = Policies::of(&question(rate, "120ms", loss, 1500));
        let config = checked_toml(&policies.aggressive.expect("it recovers slowly"));
        assert_eq!(config.paths[0].origin.streams, flows, "{rate}, {loss:?}");
    }
}

/// CUBIC's mean window is 1.054 (RTT / p)^(3/4) segments (RFC 9438, equation 6): 6,795 at 120 ms and
/// one packet in a million.
#[test]
fn the_rates_to_expect_are_those_of_the_response_functions() {
    let Expected { loss, untuned_bits_per_second: untuned, cubic_bits_per_second: cubic, .. } =
        Policies::of(&question("10Gbit", "120ms", None, 1500)).expected;
    assert_eq!(loss, 1e-6);
    // A window of 3 MiB in 120 ms.
    assert!((untuned / 1e6 - 209.7).abs() < 0.1, "{untuned}");
    assert!((cubic / 656e6 - 1.0).abs() < 0.01, "{cubic}");
    let fair = Policies::of(&question("100Mbit", "1ms", None, 1500)).expected;
    assert_eq!(fair.fair_bits_per_second, 1e8);
    assert_eq!(fair.aggressive_bits_per_second, None);
}

/// Four streams have 1,074 of the path's 4,296 segments each: the 537 that one loses all four make up.
#[test]
fn streams_make_up_together_for_what_one_has_lost() {
    let plan = Plan::of(&question("622Mbit", "80ms", None, 1500));
    let seconds = |streams| {
        plan.streams.iter().find(|plan| plan.streams == streams).map(|plan| plan.recovery_seconds)
    };
    let [one, four] = [1, 4].map(|streams| seconds(streams).expect("it is shown"));
    assert!((one / 172.0 - 1.0).abs() < 0.01, "{one}");
    assert!((four / 10.8 - 1.0).abs() < 0.01, "{four}");
}

#[test]
fn the_policy_of_any_path_is_taken() {
    for rate in ["9.6kbit", "1Mbit", "100Mbit", "1Gbit", "12.5GB/s", "1Tbit", "10Tbit"] {
        for rtt in ["10us", "1ms", "20ms", "0.12s", "600ms", "10s"] {
            for mtu_bytes in [576, 1500, 9000, 65_535] {
                for streams in [1, 4, 64] {
                    checked(&Question { streams, ..question(rate, rtt, None, mtu_bytes) });
                }
            }
        }
    }
}

#[test]
fn a_known_path_is_started_fast_where_it_is_worth_it() {
    // One connection can't fill the second half of them, and what the last holds is beyond what
    // the kernel's side can know.
    for (rate, rtt, loss, is_fast) in [
        ("100Mbit", "1ms", None, false),
        ("10Mbit", "46ms", None, false),
        ("10Mbit", "47ms", None, true),
        ("10Gbit", "1ms", None, true),
        ("600Mbit", "120ms", None, true),
        ("600Mbit", "120ms", Some(1e-4), true),
        ("600Mbit", "120ms", Some(1e-3), false),
        ("100Gbit", "300ms", None, true),
        ("100Gbit", "400ms", None, false),
    ] {
        let alone = question(rate, rtt, loss, 1500);
        for streams in [1, 4, 64] {
            for config in checked(&Question { streams, ..alone.clone() }) {
                let path = &config.paths[0];
                // The law for leaky paths takes no `resume`.
                let is_leaky = path.congestion == Some(Congestion::Ours(Law::Leaky));
                let expected = if is_fast && !is_leaky { Resume::Known } else { Resume::Off };
                assert_eq!(path.resume, expected, "{rate}, {rtt}, {loss:?}");
            }
        }
    }
}

fn aimd(increase_segments: u32, decrease_permille: u32) -> Aimd {
    let keep_q16 = ((1000 - decrease_permille) * ONE_Q16).div_ceil(1000);
    Aimd::try_new(increase_segments * ONE_Q16, keep_q16).expect("in range")
}

type LawOf = Box<dyn Fn(u32) -> Aimd>;

fn laws() -> Vec<(&'static str, LawOf, Response)> {
    let papers = aimd(6, 300);
    vec![
        ("standard", Box::new(|_| Aimd::STANDARD), Response::standard()),
        ("wad_aimd", Box::new(move |_| papers), Response::aimd(papers)),
        ("wad_highspeed", Box::new(highspeed::response), Response::highspeed()),
        ("wad_scalable", Box::new(scalable::response), Response::scalable()),
        ("wad_binomial", Box::new(|w| Binomial::Sqrt.response(w)), Response::standard()),
    ]
}

/// Slow start to half a BDP beyond the path, then saw teeth: 2.5 Gbit/s, 120 ms,
/// 300 s, a queue of half a BDP.
#[test]
fn curves_are_as_reviewed() {
    const STEP_SECONDS: f64 = 5.0;
    let bdp_segments = question("2.5Gbit", "120ms", None, 1500).path().bdp_segments();
    let bottleneck =
        Bottleneck { bdp_segments, queue_segments: bdp_segments / 2, rtt_seconds: 0.12 };
    for (name, law, _) in laws() {
        let mut text = format!(
            "{name} over 2.5 Gbit/s, 120 ms: full at {bdp_segments} segments, and a queue of half\n\
             as many. Congestion windows, every {STEP_SECONDS} s.\n\n"
        );
        let start = Window { cwnd_segments: 10, ssthresh_segments: u32::MAX, ..full(1) };
        let mut next = 0.0;
        let mut losses = 0;
        for rtt in Flow::new(&*law, bottleneck, Losses::OneIn(f64::INFINITY), start) {
            losses += u32::from(rtt.what == What::Loss);
            if rtt.at_seconds < next {
                continue;
            }
            let bar =
                "#".repeat((u64::from(rtt.cwnd_segments) * 40 / u64::from(bdp_segments)) as usize);
            let line = format!(
                "{:>7.1} s {:>4} losses {:>6} {bar}",
                rtt.at_seconds, losses, rtt.cwnd_segments
            );
            writeln!(text, "{}", line.trim_end()).expect("text takes what is written");
            next += STEP_SECONDS;
            if next > 300.0 {
                break;
            }
        }
        check(&format!("curve-{name}"), &text);
    }
}

/// An RTT at once is what its ACKs are one by one, within an RTT in twenty.
#[test]
fn an_rtt_at_once_is_its_acks_one_by_one() {
    for (name, law, _) in laws() {
        for bdp_segments in [30, 500, 3000] {
            let at_once = recovery_rtts(&*law, bdp_segments) as f64;
            let kept = law(bdp_segments).on_congestion(bdp_segments);
            let mut window = full(kept);
            let mut rtts = 1.0;
            while window.cwnd_segments < bdp_segments {
                for _ in 0..window.cwnd_segments {
                    window = law(window.cwnd_segments).on_ack(window, 1);
                }
                rtts += 1.0;
            }
            let difference: f64 = rtts - at_once;
            assert!(difference.abs() <= 1.0 + at_once / 20.0, "{name}: {rtts} and {at_once}");
        }
    }
}

/// Simulated with one loss in 1/p segments, each law beside its response
/// function. The functions leave out the RTT of recovery, which shows where
/// losses are few RTTs apart. HighSpeed TCP's table rounds a(w) up between its
/// rows, so that it is faster than its function at small windows. Scalable TCP's
/// function is of the window at a loss rather than of the mean. Binomial losses are few
/// segments, of which rounding up makes more.
#[test]
fn simulated_means_beside_the_response_functions() {
    let mut text =
        "Mean windows, in segments, by the response function and simulated with one loss\n\
                    in 1/p segments.\n\n"
            .to_owned();
    for (name, law, response) in laws() {
        for loss in [1e-3, 1e-4, 1e-5, 1e-6] {
            let function = response.mean_window_segments(loss);
            let simulated = mean_window_segments(&*law, loss, function);
            let ratio = simulated / function;
            writeln!(text, "{name:>13}  {loss:e}  {function:>8.0}  {simulated:>8.0}  {ratio:.2}")
                .expect("text takes what is written");
            let expected = match name {
                "wad_highspeed" if loss > 1e-4 => 1.3..1.5,
                "wad_highspeed" => 1.0..1.13,
                "wad_scalable" => 0.85..0.95,
                "wad_binomial" => 0.86..1.0,
                _ => 0.91..1.0,
            };
            assert!(expected.contains(&ratio), "{name} at {loss:e}: {ratio} of {function}");
        }
    }
    check("mean-windows", &text);
}

fn parse(args: &[&str]) -> Result<Arguments, String> {
    let args = ["wad", "plan"].iter().chain(args);
    match Cli::try_parse_from(args).map_err(|error| error.to_string())?.command {
        Command::Plan(plan) => Ok(plan),
        other => panic!("{other:?}"),
    }
}

#[test]
fn amounts_are_those_of_the_configuration() {
    let plan = parse(&["--rate", "1.25GB/s", "--rtt", "70ms", "--loss", "1e-5"]).expect("valid");
    assert_eq!((plan.rate.bits_per_second, plan.rtt.seconds), (1e10, 0.07));
    assert_eq!((plan.loss, plan.mtu, plan.json), (Some(1e-5), 1500, false));
    for (args, message) in [
        (["--rate", "10Gbps", "--rtt", "70ms"], "bits to some tools, bytes to others"),
        (["--rate", "10", "--rtt", "70ms"], "add one: bit, kbit"),
        (["--rate", "11Tbit", "--rtt", "70ms"], "above 0, up to 10Tbit"),
        (["--rate", "10Gbit", "--rtt", "2min"], "unknown unit"),
        (["--rate", "10Gbit", "--loss", "0"], "from 1e-10 to 0.5"),
        (["--rate", "10Gbit", "--loss", "NaN"], "from 1e-10 to 0.5"),
        (["--rate", "10Gbit", "--mtu", "100"], "576..=65535"),
    ] {
        let refused = parse(&args).expect_err(message);
        assert!(refused.contains(message), "{refused}");
    }
}
