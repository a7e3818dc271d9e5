//! The arguments of `wad plan` say what it is asked.

use clap::Args;
use wad_policy::config;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Rate that the path carries: "10Gbit", "1.25GB/s"
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    pub rate: Rate,
    /// Round trip time without queues: "70ms"
    #[arg(long, value_name = "TIME", value_parser = Rtt::parse)]
    pub rtt: Rtt,
    /// Fraction of packets that the path loses by itself: 1e-5
    #[arg(long, value_name = "FRACTION", value_parser = parse_loss)]
    pub loss: Option<f64>,
    /// Largest packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Connections that send at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub streams: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A rate as it was written, for the policy, and in bit/s.
#[derive(Clone, Debug)]
pub struct Rate {
    pub text: String,
    pub bits_per_second: f64,
}

impl Rate {
    pub fn parse(text: &str) -> Result<Self, String> {
        let bits_per_second = config::bits_per_second(text).map_err(|fault| fault.to_string())?;
        Ok(Self { text: text.trim().to_owned(), bits_per_second })
    }
}

/// A round trip time as it was written, and in seconds.
#[derive(Clone, Debug)]
pub struct Rtt {
    pub text: String,
    pub seconds: f64,
}

impl Rtt {
    pub fn parse(text: &str) -> Result<Self, String> {
        let seconds = config::rtt_seconds(text).map_err(|fault| fault.to_string())?;
        Ok(Self { text: text.trim().to_owned(), seconds })
    }
}

/// Reads a rate of losses.
pub fn parse_loss(text: &str) -> Result<f64, String> {
    let expected = || "it takes a fraction such as 1e-5, from 1e-10 to 0.5".to_owned();
    let loss: f64 = text.trim().parse().map_err(|_| expected())?;
    if (1e-10..=0.5).contains(&loss) { Ok(loss) } else { Err(expected()) }
}
