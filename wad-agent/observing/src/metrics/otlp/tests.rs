//! Requests against the page that they are made of: no series and no value is lost, and none
//! is added.

use std::{collections::BTreeMap, fmt::Write as _};

use opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue;
use prost::Message as _;
use wad_common::stats::PathStats;

use super::*;
use crate::metrics::testing::{example, path};

const STARTED: Duration = Duration::from_millis(1_700_000_000_250);

fn export(readings: Readings) -> Export {
    let origin = Origin { host: "dtn.example.org".to_owned(), instance: "default".to_owned() };
    let started = SystemTime::UNIX_EPOCH + STARTED;
    Export::new(readings, 10_000, started, &origin).unwrap()
}

fn sent(export: &Export) -> Vec<ExportMetricsServiceRequest> {
    let requests = export.requests().map(|request| request.unwrap());
    requests.map(|request| ExportMetricsServiceRequest::decode(&*request).unwrap()).collect()
}

fn metrics(requests: &[ExportMetricsServiceRequest]) -> Vec<&Metric> {
    let resources = requests.iter().flat_map(|request| &request.resource_metrics);
    resources.flat_map(|of| &of.scope_metrics).flat_map(|of| &of.metrics).collect()
}

/// Returns the labels as OpenMetrics writes them, in their order.
fn labels(attributes: &[KeyValue], bound: Option<&str>) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| {
        let Some(StringValue(text)) = attribute.value.clone().unwrap().value else {
            panic!("{attribute:?}")
        };
        (attribute.key.clone(), text)
    };
    let bound = bound.map(|bound| ("le".to_owned(), bound.to_owned()));
    attributes.iter().map(text).chain(bound).collect()
}

type Samples = BTreeMap<(String, BTreeMap<String, String>), String>;

fn shown(value: Value) -> String {
    match value {
        Value::AsInt(value) => value.to_string(),
        Value::AsDouble(value) => format!("{value:?}"),
    }
}

/// Returns the samples that the metrics stand for, with their values as they are written.
fn samples(metrics: &[&Metric]) -> Samples {
    let mut samples = Samples::new();
    let mut add = |name: String, labels, value| {
        assert_eq!(samples.insert((name, labels), value), None);
    };
    for metric in metrics {
        let name = metric.name.as_str();
        let points = match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => &sum.data_points,
            Data::Gauge(gauge) => &gauge.data_points,
            Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    let mut below = 0;
                    let bounds = point.explicit_bounds.iter().map(f64::to_string);
                    let bounds = bounds.chain(["+Inf".to_owned()]);
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    for (bound, count) in bounds.zip(&point.bucket_counts) {
                        below += count;
                        let labels = labels(&point.attributes, Some(&bound));
                        add(format!("{name}_bucket"), labels, below.to_string());
                    }
                    let (count, sum) =
                        (point.count.to_string(), format!("{:?}", point.sum.unwrap()));
                    add(format!("{name}_count"), labels(&point.attributes, None), count);
                    add(format!("{name}_sum"), labels(&point.attributes, None), sum);
                }
                continue;
            }
            other => panic!("{other:?}"),
        };
        for point in points {
            add(name.to_owned(), labels(&point.attributes, None), shown(point.value.unwrap()));
        }
    }
    samples
}

/// Returns the samples of a page, taken apart in another way than the requests are made.
fn on(page: &str) -> Samples {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let labels = labels.split("\",").filter(|label| !label.is_empty()).map(|label| {
            let (label, value) = label.split_once("=\"").unwrap();
            let value = value.strip_suffix('"').filter(|it| !it.ends_with('\\')).unwrap_or(value);
            let value: String = serde_json::from_str(&format!("\"{value}\"")).unwrap();
            // Bounds are numbers.
            let bound = value.parse::<f64>().ok().filter(|_| label == "le" && value != "+Inf");
            (label.to_owned(), bound.map_or(value, |bound| bound.to_string()))
        });
        ((name.to_owned(), labels.collect()), value.to_owned())
    };
    lines.map(sample).collect()
}

#[test]
fn no_series_and_no_value_is_lost() {
    let export = export(example());
    let requests = sent(&export);
    let (sent, page) = (samples(&metrics(&requests)), on(&export.page));
    assert!(page.len() > 100, "{}", export.page);
    assert_eq!(sent, page);
}

#[test]
fn what_there_is_to_say_of_a_metric_goes_along() {
    let requests = sent(&export(example()));
    let metrics = metrics(&requests);
    let of_name = |name: &str| *metrics.iter().find(|metric| metric.name == name).expect(name);
    let sum = |name: &str| match &of_name(name).data {
        Some(Data::Sum(sum)) => sum.clone(),
        other => panic!("{other:?}"),
    };
    let sent = of_name("wad_sent_bytes_total");
    assert_eq!((&*sent.unit, &*sent.description), ("By", "Octets that peers acknowledged"));
    assert_eq!(of_name("wad_path_limited_seconds_total").unit, "s");
    assert_eq!(of_name("wad_flows_tuned").unit, "");
    // Of each kind one; info is a sum that does not grow, as the specification has it.
    let sent = sum("wad_sent_bytes_total");
    assert!(sent.is_monotonic && sent.aggregation_temporality == i32::from(Cumulative));
    assert!(!sum("wad_build_info").is_monotonic);
    assert!(matches!(of_name("wad_flows_tuned").data, Some(Data::Gauge(_))));
    let Some(Data::Histogram(rtt)) = &of_name("wad_path_rtt_seconds").data else {
        panic!("{:?}", of_name("wad_path_rtt_seconds"))
    };
    assert_eq!(rtt.aggregation_temporality, i32::from(Cumulative));
    assert_eq!(rtt.data_points[0].explicit_bounds, [0.01, 0.05, 0.2]);
    assert_eq!(rtt.data_points[0].bucket_counts, [1, 2, 8, 1]);

    // Kernel counts go on across agents; the agent's own begin with it.
    let start = |name: &str| Duration::from_nanos(sum(name).data_points[0].start_time_unix_nano);
    let counting = Duration::from_millis(1_600_000_000_750);
    for name in ["wad_sent_bytes_total", "wad_events_lost_total", "wad_bpf_program_runs_total"] {
        assert_eq!(start(name), counting, "{name}");
    }
    for name in ["wad_config_reloads_total", "process_cpu_seconds_total", "wad_sink_sent_total"] {
        assert_eq!(start(name), STARTED, "{name}");
    }
    assert_eq!(Duration::from_nanos(rtt.data_points[0].start_time_unix_nano), STARTED);
}

#[test]
fn it_is_said_whose_they_are() {
    let requests = sent(&export(example()));
    let of = &requests[0].resource_metrics[0];
    let told = labels(&of.resource.as_ref().unwrap().attributes, None);
    let mut text = String::new();
    for (key, value) in &told {
        writeln!(text, "{key}={value}").unwrap();
    }
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "host.name=dtn.example.org\nservice.instance.id=dtn.example.org/default\n\
         service.name=wad\nservice.version={version}\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn requests_have_an_end_and_nothing_is_lost_between_them() {
    let one = PathStats { matched: 1, ..PathStats::default() };
    let paths = (0..3_000).map(|index| path(&format!("p{index}"), one)).collect();
    let ended = (0..3_000).map(|index| (format!("p{index}").into(), example().ended["bob"]));
    let ended = ended.collect();
    let export = export(Readings { paths, ended, ..Readings::default() });
    let requests = sent(&export);
    assert!(requests.len() > 4, "{}", requests.len());
    assert!(requests.iter().all(|request| request.encoded_len() < 4 << 20));
    assert!(requests.iter().all(|request| request.resource_metrics[0].resource.is_some()));
    assert_eq!(samples(&metrics(&requests)), on(&export.page));
}

#[test]
fn what_is_larger_than_their_integers_is_sent_all_the_same() {
    let most = PathStats { bytes_acked: u64::MAX, ..PathStats::default() };
    let requests = sent(&export(Readings { paths: vec![path("a", most)], ..Readings::default() }));
    let all = samples(&metrics(&requests));
    let label = BTreeMap::from([("path".to_owned(), "a".to_owned())]);
    assert_eq!(all[&("wad_sent_bytes_total".to_owned(), label)], "1.8446744073709552e19");
}

#[test]
fn a_line_that_is_none_is_named() {
    let mut export = export(Readings::default());
    for line in ["?", "# TYPE a summary\na 1", "# TYPE b histogram\nb_sum 1\nb_count x"] {
        export.page = format!("# HELP a A\n{line}\n");
        let error = export.requests().find_map(Result::err).unwrap().to_string();
        assert!(error.starts_with("a line of the metrics is none: "), "{error}");
    }
}
