//! Makes records of what happens to experiments on paths.

use jiff::Timestamp;
use serde::Serialize;
use wad_evidence::{
    experiment::{End, News},
    verdict::Verdict,
};
use wad_policy::event_name::EventName;

use super::record::Record;

/// The values of a record.
#[derive(Debug, Serialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum Values {
    Thrown { block: u64, reason: String },
    Verdict { metric: String, verdict: Verdict, pairs: usize },
    Ended { by: End },
}

/// Returns the record of news; None of a block that begins, or counts, as it should.
#[must_use]
pub fn record(path: &str, news: News, time: Timestamp) -> Option<Record<'_, Values>> {
    let values = match news {
        News::Began(_) | News::Counted { .. } => return None,
        News::Thrown { block, reason } => Values::Thrown { block, reason: reason.to_string() },
        News::Settled { metric, verdict, pairs } => {
            Values::Verdict { metric: metric.to_string(), verdict, pairs }
        }
        News::Ended(by) => Values::Ended { by },
    };
    let (ends, cookie) = (None, None);
    Some(Record { time, event: EventName::Experiment, ends, cookie, path, values })
}

#[cfg(test)]
mod tests {
    use wad_evidence::{
        metric::{Measure, Metric, Whose},
        watch::Interruption,
    };

    use super::*;
    use crate::events::record::testing::teller;

    /// The reference in the book is made of these lines.
    #[test]
    fn lines_are_as_the_reference_has_them() {
        let metric = Metric { whose: Whose::Own, measure: Measure::Goodput };
        let news = [
            News::Counted { block: 1, arm: wad_evidence::plan::Arm::Tuned, flows: 7 },
            News::Thrown { block: 17, reason: Interruption::Restarted },
            News::Settled { metric, verdict: Verdict::Better, pairs: 18 },
            News::Ended(End::Verdict),
        ];
        let records =
            news.into_iter().filter_map(|news| record("bob", news, Timestamp::UNIX_EPOCH));
        let lines = records.map(|record| record.line(&teller(), 0).unwrap());
        let lines = lines.map(|line| String::from_utf8(line).unwrap()).collect::<String>();
        let golden = include_str!("testdata/lines.jsonl");
        let own = |line: &&str| line.contains("\"event\":\"experiment\"");
        let expected: Vec<_> = golden.lines().filter(own).collect();
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected, "{lines}");
    }
}
