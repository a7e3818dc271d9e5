//! The samples of a scrape, by their names and labels, as whoever stores them has them.

use std::collections::BTreeMap;

use crate::metrics::Metrics;

/// The name and the labels of a sample.
pub type Series = (String, BTreeMap<String, String>);

/// Samples by their series.
pub type Samples = BTreeMap<Series, f64>;

impl Metrics {
    /// Returns all samples, with bounds of buckets as [`bound`] writes them.
    ///
    /// # Panics
    /// When a line is no sample.
    #[must_use]
    pub fn samples(&self) -> Samples {
        let lines = self.text().lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| sample(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }
}

/// Returns a bound of buckets as a label: `0.5`, `1`, `+Inf`.
#[must_use]
pub fn bound(bound: f64) -> String {
    if bound == f64::INFINITY { "+Inf".to_owned() } else { bound.to_string() }
}

/// Returns the series with its bound, if it has one, as [`bound`] writes it, and without
/// empty labels, which are none to Prometheus.
#[must_use]
pub fn series(name: &str, mut labels: BTreeMap<String, String>) -> Series {
    labels.retain(|_, value| !value.is_empty());
    if let Some(le) = labels.get_mut("le")
        && let Ok(number) = le.parse()
    {
        *le = bound(number);
    }
    (name.to_owned(), labels)
}

/// Reads `name{label="value",...} 1.5`.
fn sample(line: &str) -> Option<(Series, f64)> {
    let (name, value) = line.split_at(line.find(['{', ' '])?);
    let (mut rest, mut labels) = (value.strip_prefix('{').unwrap_or(value), BTreeMap::new());
    while let Some((label, behind)) = rest.split_once("=\"") {
        let (value, behind) = quoted(behind)?;
        labels.insert(label.trim_start_matches(',').to_owned(), value);
        rest = behind;
    }
    Some((series(name, labels), rest.trim_start_matches('}').trim().parse().ok()?))
}

/// Returns what stands before the closing quote, without escapes, and what is behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut characters) = (String::new(), text.chars());
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(match characters.next()? {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_values_are_told_apart() {
        let labels = |labels: &[(&str, &str)]| {
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let read = |line| sample(line).unwrap();
        assert_eq!(read("a_total 7"), (series("a_total", BTreeMap::new()), 7.0));
        let line = "b_bucket{le=\"1250000.0\",path=\"a \\\"b,c=\\\"} \\\\\\n\"} 1.5";
        let expected = labels(&[("le", "1250000"), ("path", "a \"b,c=\"} \\\n")]);
        assert_eq!(read(line), (("b_bucket".to_owned(), expected), 1.5));
        let line = "b_bucket{le=\"+Inf\"} 2";
        assert_eq!(read(line), (("b_bucket".to_owned(), labels(&[("le", "+Inf")])), 2.0));
        assert_eq!(sample("a{b=\"c} 1"), None);
        assert_eq!(sample("a{b=\"c\"} one"), None);
    }
}
