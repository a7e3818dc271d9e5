//! A real OpenTelemetry Collector scrapes an address each second, or listens at it for OTLP,
//! and sends what it has made of that to another as OTLP over HTTP, in JSON.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    process::{Place, Process, ProcessError},
    samples::{Samples, bound, series},
};

/// Tells what went wrong with the collector.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    #[error("cannot prepare the collector's folder")]
    Folder(#[from] io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Says where a collector has its metrics from.
#[derive(Clone, Copy, Debug)]
pub enum MetricsFrom {
    /// A page of Prometheus' formats.
    Page(SocketAddr),
    /// Whoever sends OTLP over HTTP to this address.
    Otlp(SocketAddr),
}

impl MetricsFrom {
    fn receivers(self) -> String {
        match self {
            Self::Page(address) => format!(
                "\x20 prometheus:\n\
                 \x20   config:\n\
                 \x20     scrape_configs:\n\
                 \x20     - job_name: wad\n\
                 \x20       scrape_interval: 1s\n\
                 \x20       scrape_timeout: 1s\n\
                 \x20       static_configs: [{{ targets: ['{address}'] }}]\n"
            ),
            Self::Otlp(address) => {
                format!("\x20 otlp: {{ protocols: {{ http: {{ endpoint: '{address}' }} }} }}\n")
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Page(_) => "prometheus",
            Self::Otlp(_) => "otlp",
        }
    }
}

/// The collector ends when dropped.
pub struct Collector {
    _process: Process,
}

impl Collector {
    /// Starts the program with its files in a folder, and does not wait for it.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(
        program: &Path,
        folder: &Path,
        from: MetricsFrom,
        to: SocketAddr,
    ) -> Result<Self, CollectorError> {
        let file = folder.join("collector.yml");
        let (receivers, name) = (from.receivers(), from.name());
        fs::write(
            &file,
            format!(
                "receivers:\n{receivers}\
                 exporters:\n\
                 \x20 otlp_http: {{ endpoint: 'http://{to}', encoding: json, compression: none }}\n\
                 service:\n\
                 \x20 telemetry: {{ metrics: {{ level: none }} }}\n\
                 \x20 pipelines:\n\
                 \x20   metrics: {{ receivers: [{name}], exporters: [otlp_http] }}\n"
            ),
        )?;
        let mut command = Command::new(program);
        command.arg("--config").arg(file);
        let log = File::create(folder.join("collector.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { _process: Place::default().spawn(command)? })
    }
}

/// Returns the samples that a request of OTLP stands for, as Prometheus would have them. Of
/// what is no counter, gauge, histogram or info, or has what these cannot have, there are none.
#[must_use]
pub fn samples(request: &Value) -> Samples {
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut samples = Samples::new();
    let scopes = each(&request["resourceMetrics"]);
    let scopes = scopes.iter().flat_map(|resource| each(&resource["scopeMetrics"]));
    for metric in scopes.flat_map(|scope| each(&scope["metrics"])) {
        let name = metric["name"].as_str().unwrap_or_default();
        let (sum, histogram) = (&metric["sum"], &metric["histogram"]);
        let is_counter = sum["isMonotonic"] == true && sum["aggregationTemporality"] == 2;
        // The receiver makes one that does not grow of an info, and takes that off its name.
        let is_whole = is_counter || sum.is_null() || name.ends_with("_info");
        let suffix = if is_whole { "" } else { "_info" };
        for point in each(&sum["dataPoints"]).iter().chain(&each(&metric["gauge"]["dataPoints"])) {
            if let Some(value) = number(&point["asDouble"]).or_else(|| number(&point["asInt"])) {
                samples.insert(series(&format!("{name}{suffix}"), labels(point)), value);
            }
        }
        for point in each(&histogram["dataPoints"]) {
            add_histogram(name, &point, &mut samples);
        }
    }
    samples
}

fn add_histogram(name: &str, point: &Value, samples: &mut Samples) {
    for part in ["sum", "count"] {
        if let Some(value) = number(&point[part]) {
            samples.insert(series(&format!("{name}_{part}"), labels(point)), value);
        }
    }
    let numbers =
        |key: &str| point[key].as_array().into_iter().flatten().filter_map(number).collect();
    let (bounds, counts): (Vec<f64>, Vec<f64>) =
        (numbers("explicitBounds"), numbers("bucketCounts"));
    let mut below = 0.0;
    for (le, count) in bounds.into_iter().chain([f64::INFINITY]).zip(counts) {
        below += count;
        let mut labels = labels(point);
        labels.insert("le".to_owned(), bound(le));
        samples.insert(series(&format!("{name}_bucket"), labels), below);
    }
}

fn labels(point: &Value) -> BTreeMap<String, String> {
    let attributes = point["attributes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    attributes.map(|it| (text(&it["key"]), text(&it["value"]["stringValue"]))).collect()
}

/// Integers of 64 bits are texts there.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn points_become_samples() {
        let attributes = json!([{ "key": "path", "value": { "stringValue": "p" } }]);
        let metrics = json!([
            { "name": "a_total", "sum": { "isMonotonic": true, "aggregationTemporality": 2,
              "dataPoints": [{ "attributes": attributes, "asInt": "3" }] } },
            { "name": "b", "sum": { "aggregationTemporality": 2, "dataPoints": [{ "asDouble": 1 }] } },
            { "name": "c", "gauge": { "dataPoints": [{ "asDouble": 1.5 }] } },
            { "name": "d", "histogram": { "dataPoints": [{ "sum": 4.5, "count": "3",
              "explicitBounds": [0.5], "bucketCounts": ["1", "2"] }] } },
            { "name": "e", "summary": { "dataPoints": [{ "sum": 4.5, "count": "3" }] } },
        ]);
        let request = json!({ "resourceMetrics": [{ "scopeMetrics": [{ "metrics": metrics }] }] });
        let label = |name: &str, value: &str| BTreeMap::from([(name.into(), value.into())]);
        let expected = Samples::from([
            (("a_total".to_owned(), label("path", "p")), 3.0),
            (("b_info".to_owned(), BTreeMap::new()), 1.0),
            (("c".to_owned(), BTreeMap::new()), 1.5),
            (("d_sum".to_owned(), BTreeMap::new()), 4.5),
            (("d_count".to_owned(), BTreeMap::new()), 3.0),
            (("d_bucket".to_owned(), label("le", "0.5")), 1.0),
            (("d_bucket".to_owned(), label("le", "+Inf")), 3.0),
        ]);
        assert_eq!(samples(&request), expected);
    }
}
