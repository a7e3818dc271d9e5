//! An object is got by curl from nginx, as browsers, package managers and caches do: the
//! server has the data, and the receiver connects. It may ask for it again by the same connection.

use std::{process::Command, time::Duration};

use serde::Deserialize;
use wad_testbed::{
    emulated::wan::ADDRESSES_V4, monotonic_ns, nginx::Nginx, process::Place, random::Random, tcp,
};

use crate::{
    lab::LabError,
    measure::Sight,
    record::Record,
    scenario::{Load, Requests, Scenario, Variant},
    transfer::{BYTES_LIMIT, Bed, read},
};

/// Holds what is used of `curl --write-out %{json}`.
#[derive(Debug, Deserialize)]
struct Got {
    size_download: u64,
    /// The seconds from its start until the last byte was there: what whoever waits for it
    /// waits.
    time_total: f64,
}

impl Bed<'_> {
    /// Gets the variant's object, showing now and then what is seen.
    ///
    /// # Errors
    /// When server or client fails, or the object is not whole.
    pub(crate) fn fetch(
        &self,
        scenario: &Scenario,
        variant: &Variant,
        show: &dyn Fn(Option<&Sight>),
    ) -> Result<Record, LabError> {
        let load = scenario.load_of(variant);
        let Load::Bytes(bytes) = load else { return Err(failed("it has no size")) };
        let port = variant.groups.first().map_or(0, |group| group.port);
        let place = Place { netns: Some(self.wan.a()), cgroup: Some(self.cgroup) };
        let _server = Nginx::start(place, port, &object(bytes))?;
        tcp::await_listener(self.wan.a(), port)
            .map_err(|error| LabError::Client { who: "server", reason: error.to_string() })?;
        let counters_before = self.counters()?;
        let filters = [format!("( sport = :{port} )"), format!("( dport = :{port} )")];
        // It may be over before the receiver would be looked at again.
        let every: [Duration; 2] = [scenario.sample_every.0; 2];
        let requests = scenario.requests.as_ref();
        let ((start_ns, printed), [sights, far_sights]) =
            self.watched(&filters, every, show, |show| {
                let start_ns = monotonic_ns();
                let mut client = self.start("client", curl(port, requests), self.wan.b())?;
                Ok((start_ns, client.finish(BYTES_LIMIT, show)?))
            })?;
        let answers = printed.lines().map(|line| read("client", line));
        let answers = answers.collect::<Result<Vec<Got>, _>>()?;
        if let Some(part) = answers.iter().find(|got| got.size_download != bytes) {
            return Err(LabError::Lost { sent: bytes, received: part.size_download });
        }
        let seconds: Vec<f64> = answers.iter().map(|got| got.time_total).collect();
        let taken: f64 = seconds.iter().sum();
        let all_bytes = bytes * seconds.len() as u64;
        let record = Record {
            start_ns,
            counters_before,
            end_ns: start_ns + span_ns(&seconds, requests),
            goodput: None,
            request_seconds: if requests.is_some() { seconds } else { vec![] },
            streams: vec![],
            sights,
            far_sights,
        };
        let rate = all_bytes as f64 * 8.0 / taken;
        Ok(record.with_rate(rate, &variant.groups).until(load))
    }
}

/// Returns the time from the first request to the last byte.
fn span_ns(seconds: &[f64], requests: Option<&Requests>) -> u64 {
    let every = requests.map_or(0.0, |requests| requests.every.0.as_secs_f64());
    let (last, others) = seconds.split_last().map_or((0.0, &[][..]), |(last, all)| (*last, all));
    let until_last: f64 = others.iter().map(|taken| taken.max(every)).sum();
    ((until_last + last) * 1e9) as u64
}

fn failed(reason: &str) -> LabError {
    LabError::Client { who: "client", reason: reason.to_owned() }
}

/// Returns a curl that gets the object, or asks for it again and again by one connection; it
/// prints a line for each answer.
fn curl(port: u16, requests: Option<&Requests>) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--noproxy", "*"]);
    command.args(["--max-time", &BYTES_LIMIT.as_secs().to_string()]);
    command.args(["--write-out", "%{json}\\n"]);
    let count = requests.map_or(1, |requests| {
        let hourly = Duration::from_secs(3600).as_millis() / requests.every.0.as_millis();
        command.args(["--rate", &format!("{hourly}/h")]);
        requests.count.get()
    });
    for _ in 0..count {
        command.args(["--output", "/dev/null"]);
        command.arg(format!("http://{}:{port}/data", ADDRESSES_V4[0]));
    }
    command
}

/// Returns so many bytes that nothing can pack.
fn object(bytes: u64) -> Vec<u8> {
    let mut random = Random::new(0);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
    words.take(bytes as usize).collect()
}

#[cfg(test)]
mod tests {
    use wad_testbed::emulated::units::Span;

    use super::*;

    #[test]
    fn curl_says_how_long_it_took() {
        let printed = r#"{"exitcode":0,"size_download":10,"time_total":1.5,"scheme":"HTTP"}"#;
        let got: Got = read("client", printed).unwrap();
        assert_eq!((got.size_download, got.time_total), (10, 1.5));
    }

    #[test]
    fn requests_span_their_pauses() {
        let requests =
            Requests { count: 3.try_into().unwrap(), every: Span(Duration::from_secs(5)) };
        assert_eq!(span_ns(&[1.0, 7.0, 2.0], Some(&requests)), 14_000_000_000);
        assert_eq!(span_ns(&[1.5], None), 1_500_000_000);
        let command = curl(80, Some(&requests));
        let has = |text: &str| command.get_args().any(|argument| argument == text);
        assert!(has("720/h"), "{command:?}");
        assert_eq!(command.get_args().filter(|argument| *argument == "--output").count(), 3);
    }

    #[test]
    fn an_object_is_as_large_as_asked_for() {
        assert_eq!((object(10).len(), object(16).len()), (10, 16));
    }
}
