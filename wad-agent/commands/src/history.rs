//! Results of probes of a path over days, as a running agent tells them: a table, or the
//! panels of a picture.

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use wad_agent::client::{self, Request};
use wad_policy::config;
use wad_probing::{
    answers::{self, History},
    archive::{Bucket, Query, Spread},
    measurement::Share,
};
use wad_toolbox::{
    amounts::{Rate, Time},
    text_table::TextTable,
};
use wad_tuning::instance::Instance;

use crate::output;

/// Which results are shown.
#[derive(Debug, Args)]
pub struct Past {
    /// Show what probes have found out of this path over time; or of this host, as tasks name it
    #[arg(long, value_name = "NAME")]
    pub history: Option<String>,
    /// From so long ago
    #[arg(long, value_name = "TIME", default_value = "7d", requires = "history",
          value_parser = parse_since)]
    pub since: Duration,
    /// Ask a service that runs alone here (`wad probe run`) [default: the agent]
    #[arg(long, value_name = "FILE", requires = "history")]
    pub socket: Option<PathBuf>,
}

pub fn parse_since(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(86_400);
    let range = Duration::from_secs(60)..=3_650 * DAY;
    config::duration(text, range, "1min to 3650d").map_err(|fault| fault.to_string())
}

/// Asks the agent of an instance, or who is at the socket, of one path or host.
pub fn ask(instance: &Instance, name: &str, past: &Past) -> Result<History> {
    let bucket = answers::bucket(past.since);
    let since = Timestamp::now().checked_sub(past.since).unwrap_or(Timestamp::MIN);
    let ask = |query: Query| -> Result<History> {
        let query = Query { since: Some(since), ..query };
        let text = answers::query_text(&query, Some(bucket));
        let request = Request::get(format!("{}{text}", answers::HISTORY));
        client::ask_at(past.socket.as_deref(), instance, &request)
    };
    let history = ask(Query { path: Some(name.to_owned()), ..Query::default() })?;
    if !history.buckets.is_empty() {
        return Ok(history);
    }
    let history = ask(Query { host: Some(name.to_owned()), ..Query::default() })?;
    if history.buckets.is_empty() {
        bail!("no probe of {name} has run since {since:.0}: no task is of this path or host");
    }
    Ok(history)
}

/// Writes it for people.
pub fn write(history: &History, out: &mut dyn Write) -> io::Result<()> {
    let titles = [
        "FROM",
        "RTT",
        "LEAST",
        "GREATEST",
        "BANDWIDTH",
        "LEAST",
        "GREATEST",
        "LOSS",
        "REORDERED",
        "MEASURED",
    ];
    let rows = history.buckets.iter().map(row);
    output::write(out, TextTable::new(titles).with_rows(rows))?;
    match history.buckets.iter().map(|bucket| bucket.least).sum::<u64>() {
        0 => Ok(()),
        runs => writeln!(
            out,
            "\n{runs} runs say only the least bandwidth (≥): something else than the path was the \
             limit"
        ),
    }
}

fn row(bucket: &Bucket) -> [String; 10] {
    let rtt = spread(bucket.rtt_seconds, |seconds| Time(seconds).to_string());
    let [mean, least, greatest] =
        spread(bucket.bandwidth_bits_per_second, |rate| Rate(rate).to_string());
    let mean = if bucket.least > 0 { format!("≥ {mean}") } else { mean };
    let [rtt, rtt_least, rtt_greatest] = rtt;
    [
        format!("{:.0}", bucket.start),
        rtt,
        rtt_least,
        rtt_greatest,
        mean,
        least,
        greatest,
        share(bucket.loss),
        share(bucket.reordering),
        format!("{} of {}", bucket.measured, bucket.periods),
    ]
}

fn spread(spread: Option<Spread>, written: impl Fn(f64) -> String) -> [String; 3] {
    match spread {
        None => ["-"; 3].map(str::to_owned),
        Some(Spread { min, mean, max }) => [mean, min, max].map(written),
    }
}

fn share(share: Option<Share>) -> String {
    match share {
        None => "-".to_owned(),
        Some(Share { part, whole }) => format!("{part} of {whole}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_is_known_and_what_is_only_the_least() {
        let start = "2026-11-26T09:00:00Z".parse().unwrap();
        let known = Bucket {
            start,
            periods: 12,
            measured: 11,
            rtt_seconds: Some(Spread { min: 0.1, mean: 0.11, max: 0.2 }),
            loss: Some(Share { part: 3, whole: 1_000 }),
            reordering: None,
            path_mtu_bytes: Some(1_500),
            bandwidth_bits_per_second: Some(Spread { min: 1e9, mean: 2e9, max: 3e9 }),
            least: 1,
        };
        let unknown = Bucket {
            start: start + Duration::from_secs(3_600),
            measured: 0,
            rtt_seconds: None,
            loss: None,
            bandwidth_bits_per_second: None,
            least: 0,
            ..known.clone()
        };
        let history = History { bucket_seconds: 3_600.0, buckets: vec![known, unknown] };
        let mut out = Vec::new();
        write(&history, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert!(lines[1].starts_with("2026-11-26T09:00:00Z"), "{out}");
        for told in ["110", "≥ 2", "3 of 1000", "11 of 12"] {
            assert!(lines[1].contains(told), "{told}: {out}");
        }
        assert!(lines[2].contains("0 of 12") && lines[2].contains(" - "), "{out}");
        assert!(lines[4].starts_with("1 runs say only the least"), "{out}");
    }
}
