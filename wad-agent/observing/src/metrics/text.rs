//! Turns what the encoder writes into the Prometheus text format 0.0.4. There the samples are those of OpenMetrics; families
//! differ in name and type, and there are no units and no end mark.

use std::fmt::Write;

/// `openmetrics` is what the encoder wrote: a HELP line, then a TYPE line, then
/// samples, for each family.
pub fn from_openmetrics(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        let mut comment = line.strip_prefix("# ").unwrap_or_default().splitn(3, ' ');
        match (comment.next(), comment.next(), comment.next()) {
            (Some("HELP"), _, Some(words)) => help = words,
            (Some("TYPE"), Some(family), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                let written = write!(
                    text,
                    "# HELP {family}{suffix} {help}\n# TYPE {family}{suffix} {kind}\n"
                );
                written.expect("writing to a string does not fail");
            }
            (Some("UNIT"), ..) | (Some("EOF"), ..) => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_renamed_and_samples_kept() {
        let openmetrics = "\
# HELP a_b Words and more words
# TYPE a_b counter
# UNIT a_b bytes
a_b_total{path=\"# EOF\"} 1
# HELP build Version
# TYPE build info
build_info{version=\"1\"} 1
# HELP now Now
# TYPE now gauge
now 3
# EOF
";
        let text = "\
# HELP a_b_total Words and more words
# TYPE a_b_total counter
a_b_total{path=\"# EOF\"} 1
# HELP build_info Version
# TYPE build_info gauge
build_info{version=\"1\"} 1
# HELP now Now
# TYPE now gauge
now 3
";
        assert_eq!(from_openmetrics(openmetrics), text);
    }
}
