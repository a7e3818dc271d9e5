//! The message that two peers exchange: what one end says of itself, as JSON.
//!
//! It has a version, and all of it is bounded. Numbers have their unit in their name; values
//! say how old they are and where they come from. There are ages in it and no times: clocks of
//! hosts differ. Fields that are not known are passed over.

mod bounds;
mod form;

use std::time::Duration;

use ipnet::IpNet;
use wad_policy::heard::{Consent, Direction, LimitedBy, Said, Source, Value};

use self::form::{ConsentForm, DirectionForm, Form, LimitForm, ValueForm};
use crate::{identity::MAX_PREFIXES, refusal::Refusal};

/// The path at which messages are exchanged, by POST.
pub const EXCHANGE: &str = "/v1/exchange";
/// The version of messages.
pub const VERSION: u32 = 1;
/// Most bytes of a message.
pub const MAX_BYTES: usize = 64 << 10;

/// One end says this.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// It says something again after so long, at the latest.
    pub every: Duration,
    /// It speaks for these; None for what the listener holds it for.
    pub prefixes: Option<Vec<IpNet>>,
    pub said: Said,
}

impl Statement {
    /// Writes it as JSON.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(&Form::from(self)).expect("all of it can be written")
    }

    /// Reads JSON, and takes it only if each value can be.
    ///
    /// # Errors
    /// The reason for which it is not heard: it is too large, no JSON of this form, of another
    /// version, or has a value out of its range.
    pub fn read(json: &[u8]) -> Result<Self, Refusal> {
        if json.len() > MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        check_version(json)?;
        let form: Form = serde_json::from_slice(json).map_err(|_| Refusal::Malformed)?;
        form.check().ok_or(Refusal::OutOfRange)
    }
}

/// Checks that JSON is of a version that is known.
pub(crate) fn check_version(json: &[u8]) -> Result<(), Refusal> {
    let form::Version { version } = serde_json::from_slice(json).map_err(|_| Refusal::Malformed)?;
    if version == VERSION { Ok(()) } else { Err(Refusal::Version) }
}

impl Form {
    /// Returns what it says, if all of it is within its bounds.
    fn check(self) -> Option<Statement> {
        let prefixes = self.prefixes.map(bounds::prefixes);
        let said = Said {
            node: optional(self.node, bounds::node)?,
            nic_bits_per_second: optional(self.nic_bits_per_second, bounds::rate)?,
            mtu_bytes: optional(self.mtu_bytes, bounds::mtu)?,
            mss_bytes: optional(self.mss_bytes, bounds::mss)?,
            max_rcvbuf_bytes: optional(self.max_rcvbuf_bytes, bounds::buffer)?,
            max_sndbuf_bytes: optional(self.max_sndbuf_bytes, bounds::buffer)?,
            free_tcp_memory_bytes: optional(self.free_tcp_memory_bytes, bounds::memory)?,
            ecn: self.ecn,
            sending: self.sending.check()?,
            receiving: self.receiving.check()?,
            consent: optional(self.consent, ConsentForm::check)?,
        };
        let every = bounds::every(self.every_ms)?;
        Some(Statement { every, prefixes: optional(prefixes, |prefixes| prefixes)?, said })
    }
}

impl DirectionForm {
    fn check(self) -> Option<Direction> {
        let limits = self.limited_by;
        if limits.len() > bounds::LIMITS {
            return None;
        }
        let limits = limits.into_iter().map(|LimitForm { limit, part }| {
            let is_part = (0.0..=1.0).contains(&part);
            (is_part && bounds::is_word(&limit)).then_some(LimitedBy { limit, part })
        });
        let seconds = |us| bounds::rtt_us(us).map(|us| us as f64 / 1e6);
        Some(Direction {
            law: value(self.law, bounds::law)?,
            wanted_window_bytes: value(self.wanted_window_bytes, bounds::buffer)?,
            bandwidth_bits_per_second: value(self.bandwidth_bits_per_second, bounds::rate)?,
            min_rtt_seconds: value(self.min_rtt_us, seconds)?,
            best_rate_bits_per_second: value(self.best_rate_bits_per_second, bounds::rate)?,
            limited_by: limits.collect::<Option<_>>()?,
        })
    }
}

impl ConsentForm {
    fn check(self) -> Option<Consent> {
        // Of another kind than is known, there is none.
        if self.to != form::AGGRESSIVE {
            return None;
        }
        Some(Consent {
            max_bits_per_second: optional(self.max_bits_per_second, bounds::rate)?,
            prefixes: bounds::prefixes(self.prefixes)?,
            ends_in: self.ends_in_ms.map(Duration::from_millis),
        })
    }
}

/// Checks what may not be there. None where it is, and is wrong.
fn optional<T, U>(given: Option<T>, check: impl FnOnce(T) -> Option<U>) -> Option<Option<U>> {
    match given {
        None => Some(None),
        Some(given) => check(given).map(Some),
    }
}

fn value<T, U>(
    given: Option<ValueForm<T>>,
    check: impl FnOnce(T) -> Option<U>,
) -> Option<Option<Value<U>>> {
    optional(given, |ValueForm { value, age_ms, source }| {
        let source = Source::ALL.into_iter().find(|known| known.word() == source)?;
        Some(Value { value: check(value)?, age: bounds::age(age_ms)?, source })
    })
}

impl From<&Statement> for Form {
    fn from(Statement { every, prefixes, said }: &Statement) -> Self {
        let limited = |prefixes: &Vec<IpNet>| prefixes.iter().take(MAX_PREFIXES).copied().collect();
        Self {
            version: VERSION,
            every_ms: milliseconds(*every),
            node: said.node.clone(),
            prefixes: prefixes.as_ref().map(limited),
            nic_bits_per_second: said.nic_bits_per_second,
            mtu_bytes: said.mtu_bytes,
            mss_bytes: said.mss_bytes,
            max_rcvbuf_bytes: said.max_rcvbuf_bytes,
            max_sndbuf_bytes: said.max_sndbuf_bytes,
            free_tcp_memory_bytes: said.free_tcp_memory_bytes,
            ecn: said.ecn,
            sending: (&said.sending).into(),
            receiving: (&said.receiving).into(),
            consent: said.consent.as_ref().map(|consent| ConsentForm {
                to: form::AGGRESSIVE.to_owned(),
                max_bits_per_second: consent.max_bits_per_second,
                prefixes: limited(&consent.prefixes),
                ends_in_ms: consent.ends_in.map(milliseconds),
            }),
        }
    }
}

impl From<&Direction> for DirectionForm {
    fn from(direction: &Direction) -> Self {
        let limits = direction.limited_by.iter().take(bounds::LIMITS);
        let limits =
            limits.map(|LimitedBy { limit, part }| LimitForm { limit: limit.clone(), part: *part });
        Self {
            law: direction.law.as_ref().map(|law| form_of(law, String::clone)),
            wanted_window_bytes: direction
                .wanted_window_bytes
                .as_ref()
                .map(|it| form_of(it, |v| *v)),
            bandwidth_bits_per_second: direction
                .bandwidth_bits_per_second
                .as_ref()
                .map(|rate| form_of(rate, |rate| *rate)),
            // In whole microseconds, as the kernel has them.
            min_rtt_us: direction
                .min_rtt_seconds
                .as_ref()
                .map(|rtt| form_of(rtt, |seconds| (seconds * 1e6).round().max(1.0) as u64)),
            best_rate_bits_per_second: direction
                .best_rate_bits_per_second
                .as_ref()
                .map(|rate| form_of(rate, |rate| *rate)),
            limited_by: limits.collect(),
        }
    }
}

fn form_of<T, U>(value: &Value<T>, form: impl FnOnce(&T) -> U) -> ValueForm<U> {
    ValueForm {
        value: form(&value.value),
        age_ms: milliseconds(value.age),
        source: value.source.word().to_owned(),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Reads a message, for libFuzzer.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(statement) = Statement::read(bytes) {
        // A fraction may lose its last bit on the way.
        assert!(Statement::read(&statement.write()).is_ok());
        let rates = [&statement.said.sending, &statement.said.receiving];
        for rate in rates.iter().filter_map(|it| it.bandwidth_bits_per_second.as_ref()) {
            assert!(rate.value > 0.0 && rate.value <= wad_policy::config::MAX_BITS_PER_SECOND);
        }
    }
}

#[cfg(test)]
mod tests;
