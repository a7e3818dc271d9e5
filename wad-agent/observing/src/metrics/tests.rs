//! Scrapes against their golden texts, and the bound on series.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use wad_common::stats::PathStats;
use wad_policy::config::testing::compare;

use super::{
    testing::{example, path},
    *,
};

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics/testdata").join(file)
}

fn scrape(readings: Readings, max_paths: usize, format: Format) -> String {
    let started = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    let text = encode(readings, max_paths, started, format).unwrap();
    text.replace(concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), "{version=\"0.0.0\"}")
}

#[test]
fn openmetrics_is_as_agreed() {
    let text = scrape(example(), 1000, Format::OpenMetrics);
    compare(&text, &golden("openmetrics.txt"));
}

#[test]
fn text_is_as_agreed() {
    let text = scrape(example(), 1000, Format::Text);
    compare(&text, &golden("text.txt"));
}

#[test]
fn series_are_bounded_and_nothing_is_lost() {
    let one = PathStats { matched: 1, srtt_us: 1, ..Default::default() };
    let paths = (0..100_000).map(|index| path(&format!("p{index}"), one)).collect();
    let text = scrape(Readings { paths, ..Default::default() }, 1000, Format::Text);
    let matched: Vec<_> =
        text.lines().filter(|line| line.starts_with("wad_connections_matched_total{")).collect();
    assert_eq!(matched.len(), 1001);
    assert!(matched.contains(&"wad_connections_matched_total{path=\"p999\"} 1"));
    assert_eq!(matched[1000], "wad_connections_matched_total{path=\"other\"} 99000");
}

/// A path with all that there can be, in a page of them.
#[test]
fn a_path_has_44_series_at_most() {
    let names = vec!["Derived".to_owned(); wad_policy::config::MAX_DERIVED_METRICS];
    let full = |index: u32| format!("path-{index}");
    let means = vec![Some(123_456_789.25); names.len()];
    let now = example().now["bob"].clone();
    let all = 0..100_000;
    let readings = Readings {
        paths: all.clone().map(|n| path(&full(n), example().paths[0].stats)).collect(),
        now: all.clone().map(|n| (full(n).into(), now.clone())).collect(),
        ended: all.clone().map(|n| (full(n).into(), example().ended["bob"])).collect(),
        limited: all.clone().map(|n| (full(n), [1.5, 2.25, 0.0, 12_345.678])).collect(),
        derived: DerivedMeans { names, means: all.map(|n| (full(n), means.clone())).collect() },
        ..Readings::default()
    };
    let text = scrape(readings, 1000, Format::Text);
    let series = text.lines().filter(|line| line.contains("path=\"path-7\"")).count();
    assert_eq!(series, 44);
    let other = text.lines().filter(|line| line.contains("path=\"other\"")).count();
    assert_eq!(other, 35);
    assert!(text.len() < 3_000_000, "{} bytes", text.len());
}

/// Prometheus sets these of whom it scrapes, and renames those of a series that it finds: a sum by
/// one of them would be of the agents, not of what they tell.
#[test]
fn no_label_is_one_of_those_who_scrape() {
    let theirs =
        ["job", "instance", "namespace", "pod", "container", "endpoint", "service", "node"];
    let text = scrape(example(), 1000, Format::OpenMetrics);
    for label in theirs {
        let is_there =
            ["{", ","].iter().any(|before| text.contains(&format!("{before}{label}=\"")));
        assert!(!is_there, "{label}");
    }
}

#[test]
fn namespaces_are_bounded_and_no_connection_is_lost() {
    let of = |readings: Readings| {
        let text = scrape(readings, 10, Format::Text);
        let lines = text.lines().filter(|line| line.starts_with("wad_pods_flows{"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut readings = example();
    let pods = readings.pods.as_mut().unwrap();
    pods.flows = (0..150).map(|n| (format!("n{n:03}").into(), 2)).collect();
    pods.flows.insert("other".into(), 3);
    let lines = of(readings.clone());
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[99], "wad_pods_flows{pod_namespace=\"n099\"} 2");
    assert_eq!(lines[100], "wad_pods_flows{pod_namespace=\"other\"} 103");
    readings.pods.as_mut().unwrap().flows.clear();
    assert!(of(readings.clone()).is_empty());
    // Where nobody follows pods, nothing is said of them.
    readings.pods = None;
    assert!(!scrape(readings, 10, Format::Text).contains("wad_pods"));
}

#[test]
fn histograms_are_summed_up_and_so_are_their_sums() {
    let mut readings = example();
    readings.ended.insert("eve".into(), readings.ended["bob"]);
    readings.paths.push(path("eve", PathStats::default()));
    let text = scrape(readings, 0, Format::OpenMetrics);
    assert!(text.contains("wad_path_rtt_seconds_bucket{le=\"0.05\",path=\"other\"} 6\n"), "{text}");
    assert!(text.contains("wad_path_rtt_seconds_sum{path=\"other\"} 2.5\n"), "{text}");
    assert!(text.contains("wad_path_rtt_seconds_count{path=\"other\"} 24\n"), "{text}");
}

#[test]
fn a_path_named_other_is_part_of_the_sum() {
    let one = PathStats { matched: 1, ..Default::default() };
    let paths = vec![path("other", one), path("bob", one), path("eve", one)];
    let text = scrape(Readings { paths, ..Default::default() }, 2, Format::Text);
    let matched: Vec<_> =
        text.lines().filter(|line| line.starts_with("wad_connections_matched_total{")).collect();
    assert_eq!(
        matched,
        [
            "wad_connections_matched_total{path=\"bob\"} 1",
            "wad_connections_matched_total{path=\"other\"} 2",
        ]
    );
}

#[test]
fn sums_saturate() {
    let most = PathStats { bytes_acked: u64::MAX, ..Default::default() };
    let paths = vec![path("a", most), path("b", most)];
    let text = scrape(Readings { paths, ..Default::default() }, 0, Format::Text);
    assert!(text.contains("wad_sent_bytes_total{path=\"other\"} 18446744073709551615\n"));
}

#[test]
fn a_scraper_gets_what_it_accepts() {
    let prometheus = "application/openmetrics-text;version=1.0.0,\
                      application/openmetrics-text;version=0.0.1;q=0.75,\
                      text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
    assert_eq!(Format::accepted("*/*"), Format::Text);
    assert_eq!(Format::accepted(""), Format::Text);
}
