//! The agent at the other end says what limits there, so that one answer has both ends.

use schemars::JsonSchema;
use serde::Serialize;
use wad_toolbox::amounts::Time;

use super::{Limit, sender::percent};

/// The agent at the other end says this of connections between the two in this direction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OtherEnd {
    /// The peer's name in the configuration.
    pub peer: String,
    /// Time since it was said.
    pub age_seconds: f64,
    /// The limits there, as that end sees them, by the part of the time, the largest first.
    pub limited_by: Vec<LimitedThere>,
    /// The largest buffer that connections from this end can get there: to receive into where
    /// this end sends, to send from where it receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_buffer_bytes: Option<u64>,
    /// The congestion control of its path, where it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub law: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LimitedThere {
    /// A limit as diagnoses have it; what this version does not know is passed over.
    pub limit: Limit,
    /// 0 to 1.
    pub part: f64,
}

impl OtherEnd {
    /// Says it in sentences.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let Self { peer, age_seconds, limited_by, max_buffer_bytes, law } = self;
        let age = Time(*age_seconds);
        let limits: Vec<_> = limited_by
            .iter()
            .map(|there| format!("{} {} of the time", there.limit.words(), percent(there.part)))
            .collect();
        let limits = match limits.as_slice() {
            [] => format!("peer {peer} said nothing {age} ago of what limits there"),
            limits => {
                format!("peer {peer} said {age} ago: limited there by {}", limits.join(", "))
            }
        };
        let buffer = max_buffer_bytes
            .map(|bytes| format!("the largest buffer that it grants there is {bytes} bytes"));
        let law = law.as_ref().map(|law| format!("its path there is under {law}"));
        [Some(limits), buffer, law].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_in_sentences() {
        let there = LimitedThere { limit: Limit::OwnWindow, part: 0.75 };
        let mut end = OtherEnd {
            peer: "tokyo".to_owned(),
            age_seconds: 12.0,
            limited_by: vec![there],
            max_buffer_bytes: Some(1 << 20),
            law: None,
        };
        let words: Vec<_> = end.words().collect();
        let limit = "peer tokyo said 12 s ago: limited there by this end's receive window 75% of \
                     the time";
        let buffer = "the largest buffer that it grants there is 1048576 bytes";
        assert_eq!(words, [limit, buffer]);
        end.limited_by.clear();
        assert!(end.words().next().is_some_and(|words| words.contains("said nothing")));
    }
}
