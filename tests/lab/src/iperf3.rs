//! The real iperf3 runs instead of the lab's own sender and receiver.

use std::{net::SocketAddr, process::Command};

use serde::Deserialize;

use crate::bulk::Amount;

/// A process of iperf3 has no more connections (MAX_STREAMS in its iperf.h).
const MOST_STREAMS: u32 = 128;

/// Holds what is used of `iperf3 --json`.
#[derive(Debug, Deserialize)]
struct Output {
    error: Option<String>,
    end: Option<End>,
}

#[derive(Debug, Deserialize)]
struct End {
    sum_received: Sum,
}

#[derive(Debug, Deserialize)]
struct Sum {
    bits_per_second: f64,
}

/// Returns how many streams each process has, so that together they have so many.
pub fn processes(streams: u32) -> impl Iterator<Item = u32> {
    let starts = (0..streams).step_by(MOST_STREAMS as usize);
    starts.map(move |start| (streams - start).min(MOST_STREAMS))
}

#[must_use]
pub fn server(on: SocketAddr) -> Command {
    let mut command = Command::new("iperf3");
    command.args(["--server", "--one-off", "--json", "--bind", &on.ip().to_string()]);
    command.args(["--port", &on.port().to_string()]);
    command
}

#[must_use]
pub fn client(to: SocketAddr, streams: u32, amount: Amount) -> Command {
    let mut command = Command::new("iperf3");
    command.args(["--json", "--client", &to.ip().to_string(), "--port", &to.port().to_string()]);
    command.args(["--parallel", &streams.to_string()]);
    match amount {
        Amount::Time(span) => command.args(["--time", &span.as_secs().to_string()]),
        Amount::Bytes(bytes) => command.args(["--bytes", &bytes.to_string()]),
    };
    command
}

/// Returns what the server received in bits per second, from its output.
///
/// # Errors
/// With what iperf3 itself gives as the reason, or what makes its output
/// unreadable.
pub fn goodput(output: &str) -> Result<f64, String> {
    let output: Output = serde_json::from_str(output).map_err(|error| error.to_string())?;
    match (output.error, output.end) {
        (None, Some(end)) => Ok(end.sum_received.bits_per_second),
        (error, _) => Err(error.unwrap_or_else(|| "it gives no sum".to_owned())),
    }
}

/// Returns what iperf3 says went wrong, if that is what its output is about.
#[must_use]
pub fn fault(output: &str) -> Option<String> {
    serde_json::from_str::<Output>(output).ok()?.error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_has_more_streams_than_it_takes() {
        let processes = |streams| processes(streams).collect::<Vec<_>>();
        assert_eq!(processes(1), [1]);
        assert_eq!(processes(128), [128]);
        assert_eq!(processes(300), [128, 128, 44]);
        assert_eq!(processes(512), [128; 4]);
    }

    #[test]
    fn reads_the_sum_or_the_error() {
        let output =
            r#"{"start": {}, "end": {"sum_received": {"bytes": 42, "bits_per_second": 336}}}"#;
        assert_eq!(goodput(output), Ok(336.0));
        let output =
            r#"{"start": {}, "end": {"sum_received": {"bits_per_second": 0}}, "error": "broken"}"#;
        assert_eq!(goodput(output), Err("broken".to_owned()));
        assert_eq!(fault(output).as_deref(), Some("broken"));
        assert_eq!(fault(r#"{"exitcode": 28}"#), None);
        assert!(goodput("").is_err());
    }
}
