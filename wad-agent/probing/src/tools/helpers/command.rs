//! A program of the user's own, which prints what it found as one JSON object.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Helper, HelperError};
use crate::{
    measurement::{Bandwidth, Confidence, Measurement, RoundTrips, Share},
    tools::{Command, Target},
};

const OUTPUT_BYTES: usize = 64 << 10;

impl Command {
    fn helper(&self, to: &Target) -> Helper {
        let mut variables = vec![
            ("WAD_PROBE_HOST", to.host.clone()),
            ("WAD_PROBE_ADDRESS", to.address.to_string()),
            ("WAD_PROBE_SECONDS", to.deadline.as_secs_f64().to_string()),
            ("WAD_PROBE_MAX_BYTES", to.max_bytes.to_string()),
        ];
        variables.extend(to.interface.clone().map(|name| ("WAD_PROBE_INTERFACE", name)));
        variables.extend(to.mark.map(|mark| ("WAD_PROBE_MARK", mark.to_string())));
        Helper {
            program: self.program.clone().into(),
            arguments: self.arguments.iter().map(Into::into).collect(),
            variables,
            memory_bytes: self.memory_bytes,
            output_bytes: OUTPUT_BYTES,
        }
    }
}

pub async fn run(command: &Command, to: &Target) -> Result<Measurement, HelperError> {
    let helper = command.helper(to);
    let ended = helper.run().await?;
    if !ended.status.success() {
        return Err(ended.failed(&helper));
    }
    let program = helper.name();
    match read(&ended.output) {
        Ok(Said::Found(measurement)) => Ok(*measurement),
        Ok(Said::Refused(reason)) => Err(HelperError::Refused { program, reason }),
        Err(reason) => Err(HelperError::Unreadable { program, reason }),
    }
}

/// The object that a user's command prints. What it cannot tell is left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The other end would not have it: why. Nothing else counts then.
    refused: Option<String>,
    rtt: Option<Times>,
    loss: Option<Counts>,
    /// RFC 4737, 3.3.
    reordering: Option<Counts>,
    path_mtu_bytes: Option<u32>,
    bandwidth: Option<Rate>,
    /// All that it sent and received.
    #[serde(default)]
    spent_bytes: u64,
}

/// Round trip times in seconds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Times {
    samples: u32,
    min_seconds: f64,
    median_seconds: f64,
    max_seconds: f64,
}

/// A part of a whole, both counted in packets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Counts {
    part: u64,
    whole: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rate {
    bits_per_second: f64,
    confidence: Word,
    /// Round trip times while it sent.
    loaded_rtt: Option<Times>,
    retransmitted_bytes: Option<u64>,
    /// Such as `cubic`.
    congestion: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Converged,
    Capped,
    ReceiverLimited,
    ApplicationLimited,
}

#[derive(Debug, PartialEq)]
pub enum Said {
    Found(Box<Measurement>),
    Refused(String),
}

/// Reads what a command printed.
pub fn read(bytes: &[u8]) -> Result<Said, String> {
    let document: Document = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if let Some(reason) = document.refused {
        return Ok(Said::Refused(reason));
    }
    let found = Measurement {
        rtt: document.rtt.map(times).transpose()?,
        loss: document.loss.map(counts).transpose()?,
        reordering: document.reordering.map(counts).transpose()?,
        path_mtu_bytes: document.path_mtu_bytes,
        bandwidth: document.bandwidth.map(rate).transpose()?,
        spent_bytes: document.spent_bytes,
    };
    if found == (Measurement { spent_bytes: found.spent_bytes, ..Measurement::default() }) {
        return Err("it tells nothing of the path".to_owned());
    }
    Ok(Said::Found(Box::new(found)))
}

fn times(times: Times) -> Result<RoundTrips, String> {
    let Times { samples, min_seconds, median_seconds, max_seconds } = times;
    let is_ordered = 0.0 < min_seconds && min_seconds <= median_seconds;
    if samples == 0 || !is_ordered || median_seconds > max_seconds || !max_seconds.is_finite() {
        return Err("round trip times are at least one, above 0 and in order".to_owned());
    }
    Ok(RoundTrips { samples, min_seconds, median_seconds, max_seconds })
}

fn counts(Counts { part, whole }: Counts) -> Result<Share, String> {
    if part > whole || whole == 0 {
        return Err(format!("{part} is no part of {whole} packets"));
    }
    Ok(Share { part, whole })
}

fn rate(rate: Rate) -> Result<Bandwidth, String> {
    let Rate { bits_per_second, confidence, loaded_rtt, retransmitted_bytes, congestion } = rate;
    if !(bits_per_second > 0.0 && bits_per_second.is_finite()) {
        return Err(format!("{bits_per_second} bit/s is no bandwidth"));
    }
    let confidence = match confidence {
        Word::Converged => Confidence::Converged,
        Word::Capped => Confidence::Capped,
        Word::ReceiverLimited => Confidence::ReceiverLimited,
        Word::ApplicationLimited => Confidence::ApplicationLimited,
    };
    let loaded_rtt = loaded_rtt.map(times).transpose()?;
    Ok(Bandwidth {
        bits_per_second,
        confidence,
        loaded_rtt,
        retransmitted_bytes,
        congestion,
        held_up: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_taken() {
        let text = br#"{"rtt": {"samples": 3, "min_seconds": 0.02, "median_seconds": 0.021,
                                "max_seconds": 0.03},
                        "loss": {"part": 1, "whole": 100}, "path_mtu_bytes": 1500,
                        "bandwidth": {"bits_per_second": 1e9, "confidence": "receiver-limited"},
                        "spent_bytes": 4000}"#;
        let Ok(Said::Found(found)) = read(text) else { panic!() };
        assert_eq!(found.rtt.unwrap().median_seconds, 0.021);
        assert_eq!(found.loss, Some(Share { part: 1, whole: 100 }));
        assert_eq!((found.path_mtu_bytes, found.spent_bytes), (Some(1500), 4000));
        assert_eq!(found.bandwidth.unwrap().confidence, Confidence::ReceiverLimited);
        let refused = Said::Refused("closed on Sundays".to_owned());
        assert_eq!(read(br#"{"refused": "closed on Sundays"}"#), Ok(refused));
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (text, why) in [
            ("{}", "tells nothing"),
            (r#"{"spent_bytes": 1}"#, "tells nothing"),
            ("", "EOF"),
            (r#"{"rttt": null}"#, "unknown field `rttt`"),
            (r#"{"loss": {"part": 2, "whole": 1}}"#, "2 is no part of 1"),
            (r#"{"loss": {"part": 0, "whole": 0}}"#, "0 is no part of 0"),
            (r#"{"bandwidth": {"bits_per_second": 0, "confidence": "capped"}}"#, "no bandwidth"),
            (r#"{"bandwidth": {"bits_per_second": 1, "confidence": "sure"}}"#, "unknown variant"),
            (
                r#"{"rtt": {"samples": 1, "min_seconds": 2, "median_seconds": 1, "max_seconds": 3}}"#,
                "in order",
            ),
        ] {
            let said = read(text.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
