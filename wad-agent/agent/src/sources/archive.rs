//! A perfSONAR archive, in the shape that esmond gave it and that elmond still
//! has: metadata of what was measured between which hosts, and for each kind of
//! event an address with its values.

use std::{
    collections::{BTreeMap, HashSet},
    net::IpAddr,
};

use serde::Deserialize;
use serde_json::Value;
use wad_http::{Client, shown};
use wad_policy::config::{Metric, PerfSonar, Source};

use super::{
    Answer, ErrorKind, Reading, Sample, SourceError, Targets, error::is_possible, number,
    side_by_side,
};

/// Most measurements that one answer of the archive may list.
const MOST_MEASUREMENTS: usize = 1_000;

/// Events of the archive tell these metrics of a path.
const EVENTS: [(&str, Metric); 4] = [
    ("throughput", Metric::Bandwidth),
    ("histogram-rtt", Metric::Rtt),
    ("packet-loss-rate", Metric::Loss),
    ("packet-loss-rate-bidir", Metric::Loss),
];

/// A measurement is made by one tool between two hosts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Measurement {
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    destination: Option<String>,
    #[serde(default)]
    event_types: Vec<EventType>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct EventType {
    event_type: String,
    #[serde(default)]
    base_uri: Option<String>,
    #[serde(default)]
    time_updated: Option<f64>,
}

/// A value at its time.
#[derive(Debug, Deserialize)]
struct Event {
    ts: f64,
    #[serde(default)]
    val: Value,
}

/// Says where the values are that are to be asked for.
#[derive(Clone, Debug, PartialEq)]
struct Values {
    uri: String,
    event: &'static str,
    updated: f64,
}

/// Asks for what was measured lately, and then for the values of the paths.
pub async fn poll(
    client: &Client<'_>,
    source: &Source,
    perfsonar: &PerfSonar,
    targets: &Targets,
) -> Result<Answer, SourceError> {
    let range = source.stale_after.as_secs();
    let body = client.get(&format!("/?time-range={range}&limit={MOST_MEASUREMENTS}")).await?;
    let measurements: Vec<Measurement> = parse(&body)?;
    let mut answer = Answer::default();
    let wanted = choose(&measurements, &perfsonar.from, targets);
    if measurements.is_empty() {
        answer.errors.push(SourceError::Empty { query: "measurements" });
    } else if wanted.is_empty() {
        let (query, label) = ("measurements", "destination".to_owned());
        answer.errors.push(SourceError::Unmatched { query, label });
    }
    let mut paths: BTreeMap<usize, Vec<(Metric, Values)>> = BTreeMap::new();
    for ((target, metric), values) in wanted {
        paths.entry(target).or_default().push((metric, values));
    }
    let asked = paths.into_iter().map(|(target, wanted)| {
        ask_of_path(client, range, &targets.names()[target], target, wanted)
    });
    for of_path in side_by_side(asked.collect()).await? {
        answer.readings.extend(of_path.readings);
        answer.errors.extend(of_path.errors);
    }
    Ok(answer)
}

/// Asks for the values of one path, one after the other. Who keeps silent about it is not
/// asked about it again.
async fn ask_of_path(
    client: &Client<'_>,
    range_seconds: u64,
    path: &str,
    target: usize,
    wanted: Vec<(Metric, Values)>,
) -> Result<Answer, SourceError> {
    let mut answer = Answer::default();
    for (metric, Values { uri, event, .. }) in wanted {
        let body = client.get_absolute(&format!("{uri}?time-range={range_seconds}")).await;
        let events = body.map_err(SourceError::from).and_then(|body| parse(&body));
        match events.and_then(|events| best(metric, event, events, path)) {
            Ok(sample) => answer.readings.push(Reading { target, metric, sample }),
            Err(error @ SourceError::Http(_)) if !error.is_of_one_answer() => return Err(error),
            Err(error) => {
                let is_silent = error.kind() == ErrorKind::Timeout;
                answer.errors.push(error);
                if is_silent {
                    break;
                }
            }
        }
    }
    Ok(answer)
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(body: &[u8]) {
    let (_, targets) = super::fuzz::configured();
    if let Ok(measurements) = parse::<Vec<Measurement>>(body) {
        let _ = choose(&measurements, &HashSet::new(), targets);
    }
    for metric in Metric::ALL {
        let sample = parse(body).and_then(|events| best(metric, "event", events, "a"));
        super::fuzz::hold(sample.map(|sample| Answer {
            readings: vec![Reading { target: 0, metric, sample }],
            errors: Vec::new(),
        }));
    }
}

fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, SourceError> {
    serde_json::from_slice(body).map_err(|source| SourceError::Malformed { source })
}

/// The one that was updated last, for each path and metric.
fn choose(
    measurements: &[Measurement],
    from: &HashSet<IpAddr>,
    targets: &Targets,
) -> BTreeMap<(usize, Metric), Values> {
    let mut chosen: BTreeMap<_, Values> = BTreeMap::new();
    for measurement in measurements {
        let source = measurement.source.as_deref().and_then(|source| source.parse().ok());
        if !from.is_empty() && !source.is_some_and(|source| from.contains(&source)) {
            continue;
        }
        let found = targets.find(measurement.destination.as_deref().unwrap_or_default());
        for EventType { event_type, base_uri, time_updated } in &measurement.event_types {
            let event = EVENTS.into_iter().find(|(event, _)| event == event_type);
            let (Some((event, metric)), Some(uri)) = (event, base_uri) else { continue };
            let updated = time_updated.unwrap_or(0.0);
            for &target in &found {
                let values = Values { uri: uri.clone(), event, updated };
                let best = chosen.entry((target, metric)).or_insert_with(|| values.clone());
                if best.updated < updated {
                    *best = values;
                }
            }
        }
    }
    chosen
}

/// Returns the best of all values that the archive has: the largest rate and the
/// smallest RTT, as other traffic only makes them worse; of losses the latest.
fn best(
    metric: Metric,
    query: &'static str,
    events: Vec<Event>,
    path: &str,
) -> Result<Sample, SourceError> {
    if events.is_empty() {
        return Err(SourceError::Empty { query });
    }
    let mut best: Option<Sample> = None;
    let mut wrong = None;
    for Event { ts, val } in events {
        let Some(value) = value_of(metric, &val).filter(|&value| is_possible(metric, value)) else {
            wrong = Some(val);
            continue;
        };
        let sample = Sample { value, measured_at_seconds: ts, is_least: false };
        let is_better = best.is_none_or(|best| match metric {
            Metric::Bandwidth => value > best.value,
            Metric::Rtt => value < best.value,
            Metric::Loss | Metric::Reordering => ts > best.measured_at_seconds,
        });
        if is_better {
            best = Some(sample);
        }
    }
    best.ok_or_else(|| {
        let value = shown(&wrong.unwrap_or_default().to_string());
        SourceError::Value { query, value, path: path.to_owned() }
    })
}

/// Returns the value in our units. A histogram has milliseconds for keys and counts
/// for values.
fn value_of(metric: Metric, val: &Value) -> Option<f64> {
    if metric != Metric::Rtt {
        return number(val);
    }
    let times = val.as_object()?.iter().filter(|(_, count)| number(count) > Some(0.0));
    let times = times.filter_map(|(time_ms, _)| time_ms.parse::<f64>().ok());
    times.filter(|time| *time > 0.0).min_by(f64::total_cmp).map(|time_ms| time_ms / 1e3)
}

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, testing::host};

    use super::*;
    use crate::sources::{
        poll::Known,
        testing::{
            paths,
            server::{Reply, Script, Server, json},
            two_paths,
        },
    };

    fn targets() -> Targets {
        let text = "[[source]]\nname = 's'\nkind = 'perfsonar'\nurl = 'http://a/archive'\n\
                    [[path]]\nname = 'a'\nremote = '198.51.100.0/24'\nmode = 'measured'\n\
                    sndbuf = 'auto'\n";
        let config = Config::parse("wad.toml", text, &host());
        Targets::new(&config.unwrap_or_else(|error| panic!("{error}")).paths)
    }

    /// The metadata are as in esmond's documentation, but for the addresses.
    const METADATA: &str = r#"[
        {"source": "192.0.2.1", "destination": "198.51.100.2", "measurement-agent": "192.0.2.1",
         "tool-name": "bwctl/iperf3", "metadata-key": "f6b732e9f351487a96126f0c25e5e546",
         "event-types": [
            {"event-type": "throughput", "time-updated": 1397482734,
             "base-uri": "/esmond/perfsonar/archive/f6b7/throughput/base",
             "summaries": [{"summary-type": "average", "summary-window": "86400",
                            "uri": "/esmond/perfsonar/archive/f6b7/throughput/averages/86400"}]},
            {"event-type": "failures", "base-uri": "/x", "time-updated": null},
            {"event-type": "throughput-subintervals", "base-uri": "/y", "summaries": []}]},
        {"source": "192.0.2.1", "destination": "198.51.100.2", "subject-type": "point-to-point",
         "event-types": [
            {"event-type": "throughput", "time-updated": 1397482735, "base-uri": "/newer"},
            {"event-type": "histogram-rtt", "time-updated": 1, "base-uri": "/rtt/base/0"}]},
        {"source": "192.0.2.9", "destination": "198.51.100.2",
         "event-types": [{"event-type": "throughput", "time-updated": 2e9, "base-uri": "/other"}]},
        {"source": "192.0.2.1", "destination": "203.0.113.1",
         "event-types": [{"event-type": "throughput", "base-uri": "/elsewhere"}]},
        {"event-types": []}]"#;

    #[test]
    fn the_newest_of_each_path_is_asked_for() {
        let measurements: Vec<Measurement> = parse(METADATA.as_bytes()).unwrap();
        let uris = |from: &[&str]| {
            let from = from.iter().map(|from| from.parse().unwrap()).collect();
            let chosen = choose(&measurements, &from, &targets());
            chosen.into_iter().map(|((_, metric), values)| (metric, values.uri)).collect::<Vec<_>>()
        };
        let uri = |metric, uri: &str| (metric, uri.to_owned());
        let rtt = uri(Metric::Rtt, "/rtt/base/0");
        assert_eq!(uris(&["192.0.2.1"]), [uri(Metric::Bandwidth, "/newer"), rtt.clone()]);
        assert_eq!(uris(&[]), [uri(Metric::Bandwidth, "/other"), rtt]);
        assert_eq!(uris(&["192.0.2.7"]), []);
    }

    fn of(metric: Metric, data: &str) -> Result<(f64, f64), &'static str> {
        parse(data.as_bytes())
            .and_then(|events| best(metric, "event", events, "a"))
            .map(|sample| (sample.value, sample.measured_at_seconds))
            .map_err(|error| error.kind().label())
    }

    /// Answers what is asked of the first of two paths so.
    fn with_first(head: &str, first: fn() -> Reply) -> Reply {
        const LISTED: &str = r#"[
            {"destination": "10.0.0.1", "event-types": [
                {"event-type": "throughput", "base-uri": "/first"},
                {"event-type": "histogram-rtt", "base-uri": "/first/rtt"}]},
            {"destination": "2001:db8::1", "event-types": [
                {"event-type": "throughput", "base-uri": "/second"}]}]"#;
        match head.split([' ', '?']).nth(1) {
            Some("/archive/") => json(LISTED),
            Some("/second") => json(r#"[{"ts": 1, "val": 9e8}]"#),
            _ => first(),
        }
    }

    /// Returns the values of a poll by target, and what is wrong.
    async fn polled(targets: &Targets, script: Script) -> (Vec<(usize, f64)>, Vec<&'static str>) {
        let server = Server::start(script).await;
        let text = format!(
            "[[source]]\nname = 's'\nkind = 'perfsonar'\nurl = 'http://{}/archive'\n\
             timeout = '2s'\n[[path]]\nname = 'a'\nremote = '10.0.0.0/8'\n\
             mode = 'measured'\nsndbuf = 'auto'\n",
            server.address
        );
        let config = Config::parse("wad.toml", &text, &host());
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let (source, mut known) = (&config.sources[0], Known::default());
        let asked = crate::sources::poll::poll(source, targets, &mut known).await;
        let Answer { readings, errors } = asked.unwrap();
        let value = |reading: Reading| (reading.target, reading.sample.value);
        let kinds = errors.iter().map(|error| error.kind().label());
        (readings.into_iter().map(value).collect(), kinds.collect())
    }

    #[tokio::test]
    async fn what_is_wrong_with_one_path_leaves_the_others() {
        let (targets, second) = (two_paths(), vec![(1, 9e8)]);
        let huge: Script = |head| with_first(head, || json(r#"[{"ts": 1, "val": 1e999}]"#));
        assert_eq!(polled(&targets, huge).await, (second.clone(), vec!["malformed"; 2]));
        let absent: Script =
            |head| with_first(head, || Reply::Whole("404 Not Found", "text/plain", "x".to_owned()));
        assert_eq!(polled(&targets, absent).await, (second.clone(), vec!["status"; 2]));
        // It is waited for once.
        let silent: Script = |head| with_first(head, || Reply::Silence);
        assert_eq!(polled(&targets, silent).await, (second, vec!["timeout"]));
    }

    #[tokio::test]
    async fn many_that_are_kept_silent_about_are_waited_for_together() {
        const PATHS: usize = 12;
        let script: Script = |head| {
            let listed = (0..PATHS).map(|path| {
                format!(
                    r#"{{"destination": "10.{path}.0.1", "event-types": [
                        {{"event-type": "throughput", "base-uri": "/of/{path}"}}]}}"#
                )
            });
            match head.split([' ', '?']).nth(1) {
                Some("/archive/") => json(&format!("[{}]", listed.collect::<Vec<_>>().join(","))),
                Some("/of/11") => json(r#"[{"ts": 1, "val": 9e8}]"#),
                _ => Reply::Silence,
            }
        };
        let begun = std::time::Instant::now();
        let (readings, errors) = polled(&paths(PATHS), script).await;
        assert_eq!((readings, errors), (vec![(11, 9e8)], vec!["timeout"; 11]));
        // One after the other they would be waited for 22 s.
        assert!(begun.elapsed().as_secs() < 11, "{:?}", begun.elapsed());
    }

    #[test]
    fn values_of_each_type_are_read() {
        let rates = r#"[{"ts": 1, "val": 9e8}, {"ts": 2, "val": 9.4e8}, {"ts": 3, "val": null},
                        {"ts": 4, "val": 1e8}]"#;
        assert_eq!(of(Metric::Bandwidth, rates), Ok((9.4e8, 2.0)));
        let histograms = r#"[{"ts": 1, "val": {"70.2": 3, "69.9": 1, "1.0": 0}},
                             {"ts": 2, "val": {"80": 10}}, {"ts": 3, "val": {}}]"#;
        let (rtt, at) = of(Metric::Rtt, histograms).unwrap();
        assert!((rtt - 0.0699).abs() < 1e-9 && at == 1.0, "{rtt}");
        let losses = r#"[{"ts": 1, "val": 0.5}, {"ts": 2, "val": 0}]"#;
        assert_eq!(of(Metric::Loss, losses), Ok((0.0, 2.0)));
    }

    #[test]
    fn what_is_none_is_named() {
        for (metric, data, kind) in [
            (Metric::Bandwidth, "[]", "empty"),
            (Metric::Bandwidth, "null", "malformed"),
            (Metric::Bandwidth, "{}", "malformed"),
            (Metric::Bandwidth, r#"[{"val": 1}]"#, "malformed"),
            (Metric::Bandwidth, r#"[{"ts": "x", "val": 1}]"#, "malformed"),
            (Metric::Bandwidth, r#"[{"ts": 1}]"#, "value"),
            (Metric::Bandwidth, r#"[{"ts": 1, "val": "NaN"}]"#, "value"),
            (Metric::Bandwidth, r#"[{"ts": 1, "val": {"error": "x"}}]"#, "value"),
            (Metric::Rtt, r#"[{"ts": 1, "val": 70}]"#, "value"),
            (Metric::Rtt, r#"[{"ts": 1, "val": {"x": 1, "5": "y"}}]"#, "value"),
            (Metric::Loss, r#"[{"ts": 1, "val": 7}]"#, "value"),
        ] {
            assert_eq!(of(metric, data), Err(kind), "{data}");
        }
    }
}
