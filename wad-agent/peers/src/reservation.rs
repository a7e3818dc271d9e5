//! The words of two peers about a reservation, as JSON: a question about a run, and the reply.
//!
//! Both have a version, and all of them is bounded. There are lengths of time and no times in
//! them. Fields that are not known are passed over.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wad_policy::{
    config::{Hold, Resource, ResourceLocks},
    reservation::{LONGEST, Question, Reply, Wish},
};

use crate::{
    message::{MAX_BYTES, VERSION},
    refusal::Refusal,
};

/// The path at which a run is asked about, by POST.
pub const RESERVE: &str = "/v1/reserve";
/// Most bytes of a task's name.
const NAME_BYTES: usize = 63;

#[derive(Debug, Serialize, Deserialize)]
struct QuestionForm {
    version: u32,
    run: u64,
    wish: WishWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lasts_ms: Option<u64>,
    /// It takes these for itself, and shares those with others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    exclusive: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WishWord {
    Offer,
    Commit,
    Release,
}

#[derive(Debug, Serialize, Deserialize)]
struct ReplyForm {
    version: u32,
    reply: ReplyWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ReplyWord {
    Granted,
    Held,
    Unknown,
    NoService,
}

/// Writes a question.
pub fn write_question(Question { run, wish }: &Question) -> Vec<u8> {
    let (word, offered) = match wish {
        Wish::Offer { lasts, locks } => (WishWord::Offer, Some((lasts, locks))),
        Wish::Commit => (WishWord::Commit, None),
        Wish::Release => (WishWord::Release, None),
    };
    let taken = |wanted| {
        let locks = offered.map(|(_, locks)| locks);
        let is_taken =
            move |resource: &Resource| locks.is_some_and(|it| it.get(*resource) == wanted);
        Resource::ALL.into_iter().filter(is_taken).map(|it| it.word().to_owned()).collect()
    };
    let lasts_ms = offered.map(|(lasts, _)| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
    let (exclusive, shared) = (taken(Hold::Exclusive), taken(Hold::Shared));
    write(&QuestionForm { version: VERSION, run: *run, wish: word, lasts_ms, exclusive, shared })
}

/// Reads a question, and takes it only if each value can be.
///
/// # Errors
/// The reason for which it is not heard.
pub fn read_question(json: &[u8]) -> Result<Question, Refusal> {
    let form: QuestionForm = read(json)?;
    let wish = match form.wish {
        WishWord::Commit => Wish::Commit,
        WishWord::Release => Wish::Release,
        WishWord::Offer => {
            let mut locks = ResourceLocks([Hold::None; 4]);
            let shared = form.shared.iter().map(|word| (word, Hold::Shared));
            let exclusive = form.exclusive.iter().map(|word| (word, Hold::Exclusive));
            for (word, hold) in shared.chain(exclusive) {
                locks.0[resource(word)? as usize] = hold;
            }
            let lasts = Duration::from_millis(form.lasts_ms.ok_or(Refusal::Malformed)?);
            if lasts > LONGEST {
                return Err(Refusal::OutOfRange);
            }
            Wish::Offer { lasts, locks }
        }
    };
    Ok(Question { run: form.run, wish })
}

/// Writes a reply.
pub fn write_reply(reply: &Reply) -> Vec<u8> {
    let (word, lock, holder) = match reply {
        Reply::Granted => (ReplyWord::Granted, None, None),
        Reply::Held { lock, holder } => (ReplyWord::Held, Some(lock.word()), holder.clone()),
        Reply::Unknown => (ReplyWord::Unknown, None, None),
        Reply::NoService => (ReplyWord::NoService, None, None),
    };
    let lock = lock.map(str::to_owned);
    write(&ReplyForm { version: VERSION, reply: word, lock, holder })
}

/// Reads a reply, as a question is read.
///
/// # Errors
/// The reason for which it is not heard.
pub fn read_reply(json: &[u8]) -> Result<Reply, Refusal> {
    let form: ReplyForm = read(json)?;
    Ok(match form.reply {
        ReplyWord::Granted => Reply::Granted,
        ReplyWord::Unknown => Reply::Unknown,
        ReplyWord::NoService => Reply::NoService,
        ReplyWord::Held => {
            let is_name = |name: &String| {
                let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                (1..=NAME_BYTES).contains(&name.len()) && name.chars().all(fits)
            };
            if !form.holder.as_ref().is_none_or(is_name) {
                return Err(Refusal::OutOfRange);
            }
            let lock = resource(&form.lock.ok_or(Refusal::Malformed)?)?;
            Reply::Held { lock, holder: form.holder }
        }
    })
}

fn resource(word: &str) -> Result<Resource, Refusal> {
    let known = Resource::ALL.into_iter().find(|resource| resource.word() == word);
    known.ok_or(Refusal::OutOfRange)
}

fn write(form: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(form).expect("all of it can be written")
}

fn read<'j, T: Deserialize<'j>>(json: &'j [u8]) -> Result<T, Refusal> {
    if json.len() > MAX_BYTES {
        return Err(Refusal::TooLarge);
    }
    crate::message::check_version(json)?;
    serde_json::from_slice(json).map_err(|_| Refusal::Malformed)
}

/// Reads a question, and a reply, for libFuzzer.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(question) = read_question(bytes) {
        assert_eq!(read_question(&write_question(&question)), Ok(question));
        if let Wish::Offer { lasts, .. } = question.wish {
            assert!(lasts <= LONGEST);
        }
    }
    if let Ok(reply) = read_reply(bytes) {
        assert_eq!(read_reply(&write_reply(&reply)), Ok(reply));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let locks = ResourceLocks([Hold::Shared, Hold::Exclusive, Hold::None, Hold::Exclusive]);
        for wish in [
            Wish::Offer { lasts: LONGEST, locks },
            Wish::Offer { lasts: Duration::from_millis(1), locks: ResourceLocks::LIGHT },
            Wish::Commit,
            Wish::Release,
        ] {
            let question = Question { run: u64::MAX, wish };
            assert_eq!(read_question(&write_question(&question)), Ok(question));
        }
        for reply in [
            Reply::Granted,
            Reply::Held { lock: Resource::HostCpu, holder: Some("nightly_1".to_owned()) },
            Reply::Held { lock: Resource::Interface, holder: None },
            Reply::Unknown,
            Reply::NoService,
        ] {
            assert_eq!(read_reply(&write_reply(&reply)), Ok(reply));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let offer = json!({
            "version": 1, "run": 7, "wish": "offer", "lasts_ms": 1000, "exclusive": ["peer"]
        });
        let with = |key: &str, value| {
            let mut offer = offer.clone();
            offer[key] = value;
            read_question(offer.to_string().as_bytes())
        };
        assert!(with("more", json!("is passed over")).is_ok());
        for (key, value, refusal) in [
            ("version", json!(2), Refusal::Version),
            ("run", json!(-1), Refusal::Malformed),
            ("run", json!(1e30), Refusal::Malformed),
            ("wish", json!("keep"), Refusal::Malformed),
            ("lasts_ms", json!(null), Refusal::Malformed),
            ("lasts_ms", json!(3_605_001), Refusal::OutOfRange),
            ("lasts_ms", json!(u64::MAX), Refusal::OutOfRange),
            ("exclusive", json!(["disk"]), Refusal::OutOfRange),
            ("more", json!("x".repeat(MAX_BYTES)), Refusal::TooLarge),
        ] {
            assert_eq!(with(key, value), Err(refusal), "{key}");
        }
        for (reply, refusal) in [
            (json!({ "version": 1, "reply": "held" }), Refusal::Malformed),
            (json!({ "version": 1, "reply": "held", "lock": "disk" }), Refusal::OutOfRange),
            (
                json!({ "version": 1, "reply": "held", "lock": "peer", "holder": "a\nb" }),
                Refusal::OutOfRange,
            ),
            (json!({ "reply": "granted" }), Refusal::Malformed),
        ] {
            assert_eq!(read_reply(reply.to_string().as_bytes()), Err(refusal), "{reply}");
        }
    }
}
