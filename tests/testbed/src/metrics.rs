//! The agent's metrics are read here as anyone who scrapes them gets them.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

/// Tells what went wrong with a scrape.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    #[error("cannot scrape http://127.0.0.1:{port}{path}")]
    Scrape { port: u16, path: String, source: io::Error },
    #[error("http://127.0.0.1:{port}{path} answers with {status}")]
    Status { port: u16, path: String, status: u16 },
    #[error("no single {name} with {labels:?} in:\n{text}")]
    Missing { name: String, labels: Vec<String>, text: String },
}

/// Returns what a GET of a path on a port of the loopback returns.
///
/// # Errors
/// When nobody answers, or not with 200.
pub fn get(port: u16, path: &str) -> Result<String, MetricsError> {
    match ask(port, path)? {
        (200, body) => Ok(body),
        (status, _) => Err(MetricsError::Status { port, path: path.to_owned(), status }),
    }
}

/// Returns the status that a GET of a path on a port of the loopback is answered with, and
/// the body.
///
/// # Errors
/// When nobody answers.
pub fn ask(port: u16, path: &str) -> Result<(u16, String), MetricsError> {
    let failed = |source| MetricsError::Scrape { port, path: path.to_owned(), source };
    let answer = exchange(port, path).map_err(failed)?;
    let parts = answer
        .split_once("\r\n\r\n")
        .and_then(|(head, body)| Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned())));
    parts.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
}

/// Asks by HTTP/1.0: the answer comes in one piece and ends with the connection.
fn exchange(port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// One scrape of the metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    text: String,
}

impl Metrics {
    /// Scrapes the agent with this port.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn read(port: u16) -> Result<Self, MetricsError> {
        Ok(Self { text: get(port, "/metrics")? })
    }

    /// Takes a text for a scrape.
    #[must_use]
    pub const fn of(text: String) -> Self {
        Self { text }
    }

    /// Returns the text of the scrape as it came.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value of a metric; labels are `name="value"`, of which all must fit.
    ///
    /// # Errors
    /// When not exactly one line fits.
    pub fn value(&self, name: &str, labels: &[&str]) -> Result<f64, MetricsError> {
        let mut fitting = self.text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (have, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            labels.iter().all(|label| have.split(',').any(|have| have == *label)).then_some(value)
        });
        match (fitting.next().and_then(|value| value.parse().ok()), fitting.next()) {
            (Some(value), None) => Ok(value),
            _ => Err(MetricsError::Missing {
                name: name.to_owned(),
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                text: self.text.clone(),
            }),
        }
    }

    /// Returns the value of a metric of a path.
    ///
    /// # Errors
    /// When there is none.
    pub fn of_path(&self, name: &str, path: &str) -> Result<f64, MetricsError> {
        self.value(name, &[&format!("path=\"{path}\"")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_one_line_that_fits() {
        let text = "# HELP a_total x\na_total{path=\"p\",reason=\"r\"} 3\na_total{path=\"q\",\
                    reason=\"r\"} 4\nb 1.5\n";
        let metrics = Metrics { text: text.to_owned() };
        assert_eq!(metrics.of_path("a_total", "q").unwrap(), 4.0);
        assert_eq!(metrics.value("b", &[]).unwrap(), 1.5);
        assert!(metrics.value("a_total", &["reason=\"r\""]).is_err());
        assert!(metrics.value("a", &[]).is_err());
    }
}
