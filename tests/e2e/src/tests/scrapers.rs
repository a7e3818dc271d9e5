//! The page of metrics is held against what scrapers make of it, and against what the agent
//! exports by itself: nothing is dropped, nothing is added, and what stands still has the same
//! value. Prometheus is in the distribution; an OpenTelemetry Collector is not, and takes
//! minutes to build: `cargo xtask collector`.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    archive::{Archive, Taken},
    collector::{self, Collector, MetricsFrom},
    free, metrics,
    mutex::locked,
    otlp::{self, Receiver},
    process::run,
    prometheus::Prometheus,
    samples::{Samples, series},
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{self, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);
const SCRAPED_LIMIT: Duration = Duration::from_secs(60);

/// The policy has metrics of every kind, and a name that has to be escaped.
const POLICY: &str = "\
[[source]]
name = 'nobody'
kind = 'prometheus'
url = 'http://127.0.0.1:1'
rtt = 'x'
interval = '1s'
[[sink]]
name = 'out'
kind = 'stdout'
[[set]]
name = 'list'
file = '/nonexistent/prefixes'
[[derived]]
name = 'Sent'
value = 'HCDataOctetsOut'
metric = true
[[path]]
name = \"wi\\\"r\\\\e\"
remote = '10.81.0.2'
sndbuf = '1MiB'
congestion = 'wad_aimd'
[[path]]
name = 'far'
remote = '192.0.2.1'
mode = 'measured'
rtt = '1ms'
bandwidth = '1Gbit'
sndbuf = 'auto'
";

/// Each scraper adds these of its own.
const OF_SCRAPERS: [&str; 6] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
    "scrape_timeout_seconds",
];

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn prometheus_drops_nothing() -> Result<()> {
    from_prometheus("prometheus-classic", &[])
}

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn prometheus_with_native_histograms_drops_nothing() -> Result<()> {
    from_prometheus("prometheus-native", &["--enable-feature=native-histograms"])
}

fn from_prometheus(label: &str, options: &[&str]) -> Result<()> {
    with_metrics(label, "", |home| {
        let target = ([127, 0, 0, 1], home.metrics_port()).into();
        let prometheus = Prometheus::start_with(home.folder(), target, options)?;
        let port = prometheus.port();
        is_all_there(home, || {
            // It answers nothing at first: {job="wad"}.
            let answer = metrics::get(port, "/api/v1/query?query=%7Bjob%3D%22wad%22%7D");
            let answer: Value =
                serde_json::from_str(&answer.unwrap_or_default()).unwrap_or_default();
            Ok(answered(&answer))
        })
    })
}

/// Holds the page against what the program, an OpenTelemetry Collector, sends on.
pub fn through_collector(program: &Path) -> Result<()> {
    let sent_on = |home: &Home, from| {
        let (taken, to) = (Taken::default(), free::address()?);
        let _archive = Archive::open(to, &Arc::clone(&taken), 1)?;
        let _collector = Collector::start(program, home.folder(), from, to)?;
        // What is sent last counts.
        is_all_there(home, || {
            let last = locked(&taken).last().cloned().unwrap_or_default();
            Ok(collector::samples(&last))
        })
    };
    with_metrics("collector-scrapes", "", |home| {
        sent_on(home, MetricsFrom::Page(([127, 0, 0, 1], home.metrics_port()).into()))
    })?;
    let at = free::address()?;
    with_metrics("collector-otlp", &exported_to(at), |home| sent_on(home, MetricsFrom::Otlp(at)))
}

fn exported_to(address: SocketAddr) -> String {
    format!("[otlp]\nurl = 'http://{address}'\ninterval = '1s'\n")
}

#[e2e(long, beside)]
fn what_is_exported_is_what_the_page_has() -> Result<()> {
    let receiver = Receiver::open(free::address()?)?;
    with_metrics("otlp-page", &exported_to(receiver.address()), |home| {
        is_all_there(home, || {
            let asked = receiver.asked();
            let last = asked.last().context("nothing yet")?;
            Ok(otlp::samples(&last.request))
        })?;
        let asked = receiver.asked();
        let last = asked.last().context("it was there")?;
        let (host, instance) = (run("uname", &["-n"])?, home.instance());
        let version = home.metrics()?.samples().into_keys();
        let version = version.into_iter().find(|(name, _)| name == "wad_build_info");
        let version = version.and_then(|(_, mut labels)| labels.remove("version"));
        let expected = [
            ("host.name", host.trim().to_owned()),
            ("service.instance.id", format!("{}/{instance}", host.trim())),
            ("service.name", "wad".to_owned()),
            ("service.version", version.context("no version")?),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        ensure!(otlp::resource(&last.request) == BTreeMap::from(expected), "{last:?}");
        Ok(())
    })
}

/// Has an agent with metrics of every kind, which stand still as far as they are of paths.
fn with_metrics(label: &str, more: &str, scrape: impl FnOnce(&Home) -> Result<()>) -> Result<()> {
    let stand = Stand::set_up(label)?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &(POLICY.to_owned() + more))?;
    let agent = home.start(stand.cgroup())?;
    let open = |port| -> Result<_> {
        Ok(Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], port))?)
    };
    open(7000)?.exchange(10_000)?;
    let running = open(7001)?;
    running.exchange(10_000)?;
    let names = ["wad_path_rtt_seconds_count", "wad_path_derived", "wad_source_errors_total"];
    let missing = || -> Result<Vec<&str>> {
        let samples = home.metrics()?.samples();
        let has = |name: &&str| samples.keys().any(|(known, _)| known == *name);
        Ok(names.into_iter().filter(|name| !has(name)).collect())
    };
    until("metrics of every kind are there", SOON, missing, Vec::is_empty)?;
    scrape(&home)?;
    drop(running);
    agent.stop()?;
    Ok(())
}

/// Waits until a scraper has what the page has, and holds it against that.
fn is_all_there(home: &Home, scraped: impl Fn() -> Result<Samples>) -> Result<()> {
    let differences = || -> Result<Vec<String>> {
        let mut scraped = scraped()?;
        scraped.retain(|(name, _), _| !OF_SCRAPERS.contains(&name.as_str()));
        let page = home.metrics()?.samples();
        ensure!(page.len() > 120, "{}", home.metrics()?.text());
        let missing = page.keys().filter(|series| !scraped.contains_key(series));
        let added = scraped.keys().filter(|series| !page.contains_key(series));
        let wrong = page.iter().filter(|((name, labels), value)| {
            // These grow with the time of a flow that runs.
            let stands = labels.contains_key("path") && name != "wad_path_limited_seconds_total";
            let other = scraped.get(&(name.clone(), labels.clone()));
            stands && other.is_some_and(|other| other != *value)
        });
        let missing = missing.map(|series| format!("lacks {series:?}"));
        let added = added.map(|series| format!("has {series:?}"));
        let wrong = wrong.map(|(series, value)| format!("has not {value} of {series:?}"));
        Ok(missing.chain(added).chain(wrong).collect())
    };
    until("the scraper has all of the page", SCRAPED_LIMIT, differences, Vec::is_empty)?;
    Ok(())
}

/// Returns the samples in Prometheus' answer to an instant query.
fn answered(answer: &Value) -> Samples {
    let results = answer["data"]["result"].as_array().into_iter().flatten();
    let sample = |result: &Value| {
        let mut labels: BTreeMap<String, String> =
            serde_json::from_value(result["metric"].clone()).context("labels")?;
        labels.retain(|label, _| label != "job" && label != "instance");
        let name = labels.remove("__name__").context("no name")?;
        let value = result["value"][1].as_str().context("no value")?.parse()?;
        anyhow::Ok((series(&name, labels), value))
    };
    results.filter_map(|result| sample(result).ok()).collect()
}
