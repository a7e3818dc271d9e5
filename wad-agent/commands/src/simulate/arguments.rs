//! The arguments of `wad simulate` say which path, and what is sent over it.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use wad_policy::config;

use super::sender::law_names;
use crate::plan::arguments::{Rate, Rtt, parse_loss};

/// The most of a path that a queue may hold, in bandwidth-delay products.
const MOST_BDP: f64 = 100.0;
/// Simulated time, up to an hour.
const TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

#[derive(Debug, Args)]
pub struct Simulate {
    /// Laws to set beside each other: cubic, reno, or one of wad's; with commas between them
    #[arg(long = "law", value_name = "NAME", value_delimiter = ',', value_parser = parse_law,
          required_unless_present = "path")]
    pub laws: Vec<String>,
    /// A path of the configuration: its whole policy, and what the file says that it carries
    #[arg(long, value_name = "NAME")]
    pub path: Option<String>,
    /// The configuration that has it [default: /etc/wad/wad.toml]
    #[arg(long, value_name = "FILE", requires = "path")]
    pub config: Option<PathBuf>,
    /// Rate that the path carries, headers included: "100Gbit/s" [default: the path's]
    #[arg(long, value_name = "RATE", value_parser = Rate::parse, required_unless_present = "path")]
    pub rate: Option<Rate>,
    /// Round trip time without queues: "200ms" [default: the path's]
    #[arg(long, value_name = "TIME", value_parser = Rtt::parse, required_unless_present = "path")]
    pub rtt: Option<Rtt>,
    /// Most that waits before the bottleneck: "4MiB", or a part of what the path holds in a round
    /// trip time: "0.25BDP"
    #[arg(long, value_name = "SIZE", value_parser = Queue::parse, default_value = "1BDP")]
    pub queue: Queue,
    /// Largest packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Fraction of packets that the path loses by itself: 1e-5
    #[arg(long, value_name = "FRACTION", value_parser = parse_loss)]
    pub loss: Option<f64>,
    /// A packet that it loses, counted from 1; with commas between several
    #[arg(long, value_name = "NUMBER", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1..))]
    pub lose: Vec<u64>,
    /// Connections that send at a time, all alike
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub flows: u32,
    /// Time that is simulated: "300s", "10min"
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "60s")]
    pub time: Duration,
    /// Most bytes that a connection has on its way, whatever its buffers [default: 1 GiB, which
    /// is the most that TCP can have]
    #[arg(long, value_name = "SIZE", value_parser = parse_window)]
    pub window: Option<u64>,
    /// Seed of all that is random; the same one gives the same figures
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// A picture of it (SVG), beside the table
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The most that waits at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queue {
    Bytes(u64),
    /// Bandwidth-delay products.
    Bdp(f64),
}

impl Queue {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some(part) = text.strip_suffix("BDP").or_else(|| text.strip_suffix("bdp")) else {
            return config::bytes(text).map(Self::Bytes).map_err(|fault| fault.to_string());
        };
        let expected = || format!("it takes a part such as 0.25BDP, from 0 to {MOST_BDP}");
        let part: f64 = part.trim().parse().map_err(|_| expected())?;
        if (0.0..=MOST_BDP).contains(&part) { Ok(Self::Bdp(part)) } else { Err(expected()) }
    }
}

fn parse_law(text: &str) -> Result<String, String> {
    let name = text.trim();
    if law_names().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let known: Vec<_> = law_names().collect();
    Err(format!("simulated are {}", known.join(", ")))
}

fn parse_time(text: &str) -> Result<Duration, String> {
    config::duration(text, TIMES, "100ms to 1h").map_err(|fault| fault.to_string())
}

fn parse_window(text: &str) -> Result<u64, String> {
    let bytes = config::bytes(text).map_err(|fault| fault.to_string())?;
    if bytes > 0 { Ok(bytes) } else { Err("a window of nothing carries nothing".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_size_or_a_part_of_the_path() {
        assert_eq!(Queue::parse("4MiB"), Ok(Queue::Bytes(4 << 20)));
        assert_eq!(Queue::parse(" 0.25 BDP"), Ok(Queue::Bdp(0.25)));
        assert_eq!(Queue::parse("1bdp"), Ok(Queue::Bdp(1.0)));
        for wrong in ["BDP", "-1BDP", "101BDP", "0.25", "4 packets"] {
            assert!(Queue::parse(wrong).is_err(), "{wrong}");
        }
    }
}
