//! A receiver of OTLP on the loopback takes metrics over HTTP, answers as a test wants, and
//! keeps what it was sent.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{KeyValue, any_value::Value::StringValue},
    metrics::v1::{
        AggregationTemporality::Cumulative, HistogramDataPoint, Metric, metric::Data,
        number_data_point::Value,
    },
};
use prost::Message as _;

use crate::{
    mutex::locked,
    samples::{Samples, bound, series},
};

/// The answer that all was taken.
pub const TAKES: &str = "200 OK";

/// A request, and what it was answered.
#[derive(Clone, Debug)]
pub struct Asked {
    pub request: ExportMetricsServiceRequest,
    pub answer: &'static str,
}

/// The receiver; it is away when this is dropped.
pub struct Receiver {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    answer: Arc<Mutex<&'static str>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Listens, and takes all that it is sent.
    ///
    /// # Errors
    /// When somebody has the address.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let (ended, answer) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(TAKES)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (over, said, kept) = (Arc::clone(&ended), Arc::clone(&answer), Arc::clone(&asked));
        let thread = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let answer = *locked(&said);
                // Whoever asks may go away in the midst of it.
                if let Ok(request) = serve(&stream, answer) {
                    locked(&kept).push(Asked { request, answer });
                }
            }
        });
        Ok(Self { address, ended, answer, asked, thread: Some(thread) })
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with this from now on: a status, and headers behind it.
    pub fn answer(&self, answer: &'static str) {
        *locked(&self.answer) = answer;
    }

    /// Returns what it was sent so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.asked).clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(mut stream: &TcpStream, answer: &str) -> io::Result<ExportMetricsServiceRequest> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line)? > "\r\n".len() {
        head.push_str(&line.to_ascii_lowercase());
        line.clear();
    }
    let wanted = [
        "post /v1/metrics ",
        "\r\ncontent-type: application/x-protobuf\r\n",
        "\r\ncontent-encoding: gzip\r\n",
    ];
    if !wanted.iter().all(|part| head.contains(part)) {
        write!(stream, "HTTP/1.1 415 {head:?}\r\ncontent-length: 0\r\n\r\n")?;
        return Err(io::Error::other(head));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.unwrap_or_default().parse().map_err(io::Error::other)?;
    let (mut packed, mut body) = (vec![0; length], Vec::new());
    reader.read_exact(&mut packed)?;
    GzDecoder::new(&*packed).read_to_end(&mut body)?;
    let request = ExportMetricsServiceRequest::decode(&*body).map_err(io::Error::other)?;
    write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    Ok(request)
}

/// Returns the samples that a request stands for, as Prometheus would have them.
#[must_use]
pub fn samples(request: &ExportMetricsServiceRequest) -> Samples {
    let mut samples = Samples::new();
    for metric in metrics(request) {
        let name = metric.name.as_str();
        let points = match &metric.data {
            Some(Data::Sum(sum)) if sum.aggregation_temporality == i32::from(Cumulative) => {
                &sum.data_points
            }
            Some(Data::Gauge(gauge)) => &gauge.data_points,
            Some(Data::Histogram(histogram)) => {
                histogram.data_points.iter().for_each(|it| add_histogram(name, it, &mut samples));
                continue;
            }
            _ => continue,
        };
        for point in points {
            let value = match point.value {
                Some(Value::AsInt(value)) => value as f64,
                Some(Value::AsDouble(value)) => value,
                None => continue,
            };
            samples.insert(series(name, labels(&point.attributes)), value);
        }
    }
    samples
}

fn add_histogram(name: &str, point: &HistogramDataPoint, samples: &mut Samples) {
    let labels = labels(&point.attributes);
    for (part, value) in [("sum", point.sum), ("count", Some(point.count as f64))] {
        samples
            .extend(value.map(|value| (series(&format!("{name}_{part}"), labels.clone()), value)));
    }
    let mut below = 0;
    let bounds = point.explicit_bounds.iter().copied().chain([f64::INFINITY]);
    for (le, count) in bounds.zip(&point.bucket_counts) {
        below += count;
        let mut labels = labels.clone();
        labels.insert("le".to_owned(), bound(le));
        samples.insert(series(&format!("{name}_bucket"), labels), below as f64);
    }
}

fn metrics(request: &ExportMetricsServiceRequest) -> impl Iterator<Item = &Metric> {
    let scopes = request.resource_metrics.iter().flat_map(|of| &of.scope_metrics);
    scopes.flat_map(|scope| &scope.metrics)
}

/// Returns when the sum of this name began, in nanoseconds since the Unix epoch.
#[must_use]
pub fn start_of(request: &ExportMetricsServiceRequest, name: &str) -> Option<u64> {
    match &metrics(request).find(|metric| metric.name == name)?.data {
        Some(Data::Sum(sum)) => Some(sum.data_points.first()?.start_time_unix_nano),
        _ => None,
    }
}

/// Returns the attributes that say whose metrics they are.
#[must_use]
pub fn resource(request: &ExportMetricsServiceRequest) -> BTreeMap<String, String> {
    let resource = request.resource_metrics.first().and_then(|of| of.resource.as_ref());
    resource.map(|resource| labels(&resource.attributes)).unwrap_or_default()
}

fn labels(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
        StringValue(text) => Some((attribute.key.clone(), text.clone())),
        _ => None,
    };
    attributes.iter().filter_map(text).collect()
}
