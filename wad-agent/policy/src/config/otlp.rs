//! `[otlp]`: the metrics are sent to a service that takes them by the OpenTelemetry protocol.

use std::{ops::RangeInclusive, time::Duration};

use toml::de::DeValue;
use wad_toolbox::{access::Access, url::Url};

use super::{
    access,
    fault::{Fault, Problems},
    keys::{
        Key,
        LeftOut::{Refused, Value},
        Takes::{Text, Time},
        key,
    },
    quantity,
    table::{self, Table},
};

pub const TABLE: &str = "otlp";

pub const KEYS: &[Key] = &[
    key("url").takes(
        Text("`http://` or `https://`"),
        Refused,
        "the service, as `\"http://collector:4318\"`: metrics go to `/v1/metrics` below it",
    ),
    key("interval").takes(
        Time(INTERVALS),
        Value("\"1min\""),
        "time from one export to the next; one that fails is tried again until then",
    ),
    key("timeout").takes(Time(TIMEOUTS), Value("\"10s\""), "for a request"),
    access::TOKEN_FILE,
    access::USERNAME,
    access::PASSWORD_FILE,
    access::HEADERS,
    access::CA_FILE,
    access::CLIENT_CERTIFICATE,
    access::CLIENT_KEY,
    access::PROXY,
];

const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(300);

const INTERVAL: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The path of metrics below that of a service (OTLP specification, OTLP/HTTP).
const METRICS_PATH: &str = "/v1/metrics";

/// A service that takes metrics by OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// Where metrics are sent, with the path that the protocol has for them.
    pub url: Url,
    pub access: Access,
    /// Time from one export to the next.
    pub interval: Duration,
    /// Time for one request, from the name look-up to the last byte.
    pub timeout: Duration,
}

pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<Otlp> {
    table.require("url", problems, "add url = \"http://HOST:4318\"");
    let url = table.read("url", problems, service);
    let interval = table.read("interval", problems, |value| {
        quantity::duration(table::text(value)?, INTERVALS, "1s to 1h")
    });
    let timeout = table.read("timeout", problems, |value| {
        quantity::duration(table::text(value)?, TIMEOUTS, "100ms to 5min")
    });
    let access = access::read(table, url.as_ref(), problems);
    let mut url = url?.value;
    url.path.push_str(METRICS_PATH);
    Some(Otlp {
        url,
        access,
        interval: interval.map_or(INTERVAL, |interval| interval.value),
        timeout: timeout.map_or(TIMEOUT, |timeout| timeout.value),
    })
}

fn service(value: &DeValue<'_>) -> Result<Url, Fault> {
    let url = Url::parse(table::text(value)?)?;
    if url.path.contains('?') {
        return Err(Fault::new("a query in the URL of a service", "not behind this path")
            .help("leave it out; what a service is to be told stands in `headers`"));
    }
    if url.path.ends_with(METRICS_PATH) {
        return Err(Fault::new("the path of metrics is added to `url`", "would be there twice")
            .help(format!("leave {METRICS_PATH} out")));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::super::{Config, testing::host};

    #[test]
    fn metrics_go_below_the_path_of_the_service() {
        for (url, expected) in [
            ("http://c:4318", "http://c:4318/v1/metrics"),
            ("http://c:4318/", "http://c:4318/v1/metrics"),
            ("https://c/api/v1/otlp", "https://c/api/v1/otlp/v1/metrics"),
        ] {
            let text = format!("[otlp]\nurl = \"{url}\"\n");
            let config = Config::parse("file", &text, &host()).expect(url);
            assert_eq!(config.otlp.expect(url).url.to_string(), expected);
        }
    }
}
