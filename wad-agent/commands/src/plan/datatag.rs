//! DataTAG's table of responsiveness (Martin-Flatin and Ravot, ECMWF 2002), what
//! each law makes of it, and how much faster paths would fare.

use std::fmt::Write as _;

use wad_common::law::{Aimd, highspeed, scalable};
use wad_toolbox::amounts::{Rate, Time};

use super::{path::PathNumbers, simulation::recovery_rtts, tests};

/// The table: bit/s, RTT in seconds, responsiveness in seconds. The paper has MSS
/// = 1460.
const PAPER: [(f64, f64, f64); 6] = [
    (9.6e3, 0.040, 0.0006),
    (10e6, 0.020, 0.150),
    (100e6, 0.005, 0.100),
    (622e6, 0.120, 6.0 * 60.0),
    (2.5e9, 0.120, 23.0 * 60.0),
    (10e9, 0.120, 90.0 * 60.0),
];

/// Faster paths have come since then.
const FASTER: [(f64, f64); 3] = [(40e9, 0.120), (100e9, 0.120), (400e9, 0.120)];

fn path(bits_per_second: f64, rtt_seconds: f64) -> PathNumbers {
    PathNumbers { bits_per_second, rtt_seconds, mss_bytes: 1460 }
}

/// The paper rounds, and down: its own formula gives up to a sixth more.
#[test]
fn the_formula_gives_the_papers_numbers() {
    for (rate, rtt, responsiveness) in PAPER {
        let formula = path(rate, rtt).responsiveness_seconds();
        let ratio = formula / responsiveness;
        assert!((1.0..1.17).contains(&ratio), "{formula} s for {responsiveness} s");
    }
}

/// The formula leaves out the RTT of recovery and what is not a whole segment.
#[test]
fn the_standard_law_recovers_as_the_formula_says() {
    let paper = PAPER.iter().skip(1).map(|&(rate, rtt, _)| (rate, rtt));
    for (rate, rtt) in paper.chain(FASTER) {
        let path = path(rate, rtt);
        let rtts = recovery_rtts(&|_| Aimd::STANDARD, path.bdp_segments()) as f64;
        let formula = path.responsiveness_seconds() / rtt;
        assert!((formula - 1.0..=formula + 2.0).contains(&rtts), "{rtts} for {formula}");
    }
}

#[test]
fn each_law_on_each_path() {
    let papers = |_| match Aimd::try_new(4 << 16, 57_344) {
        Some(aimd) => aimd,
        None => panic!("in range"),
    };
    let mut text =
        "Time to fill the path again after one loss, MSS 1460: by the DataTAG paper, by\n\
                    its formula C RTT^2 / (2 MSS), and by each law, simulated. AIMD(0.125, 4) is\n\
                    the Net100 papers'; RFC 3649's AIMD is its pair for the path's window.\n\n"
            .to_owned();
    let head = [
        "path",
        "window",
        "paper",
        "formula",
        "standard",
        "(0.125, 4)",
        "RFC 3649",
        "highspeed",
        "scalable",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let paper = PAPER.iter().map(|&(rate, rtt, said)| (rate, rtt, Time(said).to_string()));
    let faster = FASTER.iter().map(|&(rate, rtt)| (rate, rtt, "-".to_owned()));
    for (rate, rtt, said) in paper.chain(faster) {
        let path = path(rate, rtt);
        let window = path.bdp_segments();
        let pair = highspeed::response(window);
        let time =
            |law: &dyn Fn(u32) -> Aimd| Time(recovery_rtts(law, window) as f64 * rtt).to_string();
        rows.push([
            format!("{}, {}", Rate(rate), Time(rtt)),
            window.to_string(),
            said,
            Time(path.responsiveness_seconds()).to_string(),
            time(&|_| Aimd::STANDARD),
            time(&papers),
            time(&|_| pair),
            time(&highspeed::response),
            time(&scalable::response),
        ]);
    }
    for row in rows {
        writeln!(
            text,
            "{:>19}  {:>8}{}",
            row[0],
            row[1],
            row[2..].iter().map(|cell| format!("  {cell:>10}")).collect::<String>()
        )
        .expect("text takes what is written");
    }
    tests::check("datatag", &text);
}
