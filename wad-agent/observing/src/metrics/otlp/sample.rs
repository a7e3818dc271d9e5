//! A sample is a line of the page of metrics.

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::attribute;

/// A sample, with its labels as they are written.
pub struct Sample<'l> {
    pub name: &'l str,
    labels: Vec<(&'l str, &'l str)>,
    pub value: &'l str,
}

impl<'l> Sample<'l> {
    /// Reads a line; None of what is no sample.
    pub fn read(line: &'l str) -> Option<Self> {
        let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
        if let Some(value) = rest.strip_prefix(' ') {
            return Some(Self { name, labels: Vec::new(), value });
        }
        rest = &rest[1..];
        let mut labels = Vec::new();
        loop {
            let (label, behind) = rest.split_once("=\"")?;
            let end = end_of_text(behind)?;
            labels.push((label, &behind[..end]));
            rest = &behind[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return Some(Self { name, labels, value: rest.strip_prefix("} ")? }),
            }
        }
    }

    /// Returns what a label has, as it is written.
    pub fn label(&self, name: &str) -> Option<&'l str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value)
    }

    /// Returns the labels as they are meant.
    pub fn attributes(&self) -> Vec<KeyValue> {
        self.labels.iter().map(|(label, value)| attribute(label, unescaped(value))).collect()
    }
}

/// Returns where the first quotation mark is that is not escaped.
fn end_of_text(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Undoes the escapes of OpenMetrics: of the backslash, the quotation mark, and the line feed.
fn unescaped(text: &str) -> String {
    let mut chars = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(next) = chars.next() {
        let next = match next {
            '\\' => match chars.next() {
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            },
            other => other,
        };
        plain.push(next);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_apart() {
        let sample = Sample::read(r#"a_total{path="b \"c\\\n} d,e=",reason="f g"} 5"#).unwrap();
        assert_eq!((sample.name, sample.value), ("a_total", "5"));
        assert_eq!(sample.label("reason"), Some("f g"));
        assert_eq!(unescaped(sample.label("path").unwrap()), "b \"c\\\n} d,e=");
        let sample = Sample::read("a 1.5").unwrap();
        assert_eq!((sample.name, sample.value, sample.label("le")), ("a", "1.5", None));
    }

    #[test]
    fn what_is_none_is_not_read() {
        for line in ["", "a", "a{", "a{b=\"c} 1", "a{b=\"c\\\"} 1", "a{b=\"c\"}1", "a{b=c} 1"] {
            assert!(Sample::read(line).is_none(), "{line}");
        }
    }
}
