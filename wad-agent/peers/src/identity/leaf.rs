//! A certificate of a peer's own (RFC 5280), as far as it says who that is. Whether somebody
//! has signed it is not looked at here.

use std::time::SystemTime;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use ring::digest::{SHA256, digest};
use wad_policy::config::KeyPin;

use super::der::{
    BIT_STRING, BOOLEAN, Der, GENERALIZED_TIME, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE,
    UTC_TIME, boolean,
};

/// The identifiers of extensions (RFC 5280 section 4.2.1).
const KEY_USAGE: [u8; 3] = [0x55, 0x1d, 15];
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 19];

/// Bits of the first byte of a key's usage: to sign certificates, and lists of revoked ones.
const SIGNS_OTHERS: u8 = 0x04 | 0x02;

/// Tags of fields by number: explicit ones, and a name that is a URI.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const ISSUER_ID: u8 = 0x81;
const SUBJECT_ID: u8 = 0x82;
const URI: u8 = 0x86;

/// Most names of a certificate that are looked at.
const MOST_NAMES: usize = 64;

/// Says that bytes are no certificate that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no certificate that can be read")]
pub struct Unreadable;

/// Holds what a certificate says of its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub valid_from: Timestamp,
    pub valid_until: Timestamp,
    /// The hash of its key.
    pub pin: KeyPin,
    /// It may sign other certificates, and is none of a host's own.
    pub signs_others: bool,
    /// The URIs among its subject's alternative names.
    pub uris: Vec<String>,
}

impl Leaf {
    /// Reads a certificate in DER.
    pub fn parse(der: &[u8]) -> Result<Self, Unreadable> {
        certificate(der).ok_or(Unreadable)
    }

    /// Says whether that time is within its validity, or on which side of it.
    pub fn is_valid_at(&self, now: SystemTime) -> Validity {
        let now = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
        if now < self.valid_from {
            Validity::NotYet
        } else if now > self.valid_until {
            Validity::Over
        } else {
            Validity::Now
        }
    }
}

/// Says how a time is to a certificate's validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    NotYet,
    Now,
    Over,
}

fn certificate(der: &[u8]) -> Option<Leaf> {
    let mut der = Der::new(der);
    let mut outer = der.enter(SEQUENCE).filter(|_| der.is_empty())?;
    let mut signed = outer.enter(SEQUENCE)?;
    signed.optional(VERSION);
    signed.expect(INTEGER)?;
    // By which algorithm, and whose signature it is.
    signed.expect(SEQUENCE)?;
    signed.expect(SEQUENCE)?;
    let mut validity = signed.enter(SEQUENCE)?;
    let (valid_from, valid_until) = (time(&mut validity)?, time(&mut validity)?);
    signed.expect(SEQUENCE)?;
    let key = signed.expect(SEQUENCE)?.whole;
    let mut pin = KeyPin([0; 32]);
    pin.0.copy_from_slice(digest(&SHA256, key).as_ref());
    let mut leaf = Leaf { valid_from, valid_until, pin, signs_others: false, uris: Vec::new() };
    signed.optional(ISSUER_ID);
    signed.optional(SUBJECT_ID);
    if let Some(extensions) = signed.optional(EXTENSIONS) {
        let mut extensions = Der::new(extensions.content).enter(SEQUENCE)?;
        let mut seen = Vec::new();
        while !extensions.is_empty() {
            let mut extension = extensions.enter(SEQUENCE)?;
            let id = extension.expect(OBJECT_IDENTIFIER)?.content;
            extension.optional(BOOLEAN);
            let value = extension.expect(OCTET_STRING)?.content;
            // There is no more than one of a kind (section 4.2).
            if seen.contains(&id) {
                return None;
            }
            seen.push(id);
            leaf.take(id, value)?;
        }
    }
    signed.is_empty().then_some(leaf)
}

impl Leaf {
    fn take(&mut self, id: &[u8], value: &[u8]) -> Option<()> {
        let mut value = Der::new(value);
        if id == BASIC_CONSTRAINTS {
            let mut constraints = value.enter(SEQUENCE)?;
            if let Some(is_authority) = constraints.optional(BOOLEAN) {
                self.signs_others |= boolean(is_authority.content)?;
            }
        } else if id == KEY_USAGE {
            // The first byte says how many bits of the last are not used.
            let bits = value.expect(BIT_STRING)?.content.get(1).copied().unwrap_or(0);
            self.signs_others |= bits & SIGNS_OTHERS != 0;
        } else if id == SUBJECT_ALT_NAME {
            let mut names = value.enter(SEQUENCE)?;
            let mut count = 0;
            while !names.is_empty() {
                let name = names.next()?;
                count += 1;
                if count > MOST_NAMES {
                    return None;
                }
                if name.tag == URI {
                    self.uris.push(str::from_utf8(name.content).ok()?.to_owned());
                }
            }
        }
        Some(())
    }
}

/// Reads a time (section 4.1.2.5): in UTC, to the second.
fn time(der: &mut Der<'_>) -> Option<Timestamp> {
    let element = der.next()?;
    let text = str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (element.tag, text.len()) {
        // Years from 50 on are of the century before (section 4.1.2.5.1).
        (UTC_TIME, 12) => {
            let year: i16 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let two = |at: usize| rest[at..at + 2].parse::<i8>().ok();
    let civil = DateTime::new(year, two(0)?, two(2)?, two(4)?, two(6)?, two(8)?, 0).ok()?;
    TimeZone::UTC.to_timestamp(civil).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Authority, Kind};

    #[test]
    fn a_certificate_says_who_has_it_and_until_when() {
        let authority = Authority::new();
        let host = authority.host(&Kind::of("a.example", &["192.0.2.0/24"]));
        let leaf = Leaf::parse(&host.der).unwrap();
        assert_eq!(leaf.uris, ["wad://a.example/?prefix=192.0.2.0/24"]);
        assert!(!leaf.signs_others);
        assert_eq!(leaf.is_valid_at(SystemTime::now()), Validity::Now);
        let day = std::time::Duration::from_secs(86_400);
        assert_eq!(leaf.is_valid_at(SystemTime::now() + 1000 * day), Validity::Over);
        assert_eq!(leaf.is_valid_at(SystemTime::now() - 1000 * day), Validity::NotYet);
        assert_eq!(leaf.pin, host.pin());
        assert!(Leaf::parse(authority.der()).unwrap().signs_others);
    }

    #[test]
    fn each_byte_counts_and_none_panics() {
        let host = Authority::new().host(&Kind::of("a.example", &["192.0.2.0/24"]));
        let whole = Leaf::parse(&host.der).unwrap();
        for end in 0..host.der.len() {
            assert_eq!(Leaf::parse(&host.der[..end]), Err(Unreadable));
        }
        let longer = [&host.der[..], &[0]].concat();
        assert_eq!(Leaf::parse(&longer), Err(Unreadable));
        let mut differs = 0;
        for (at, bit) in (0..host.der.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut changed = host.der.clone();
            changed[at] ^= 1 << bit;
            differs += usize::from(Leaf::parse(&changed).as_ref() != Ok(&whole));
        }
        assert!(differs > 8 * 100, "{differs}");
    }

    #[test]
    fn times_are_of_either_form() {
        let read = |tag: u8, text: &str| {
            let bytes = [&[tag, text.len() as u8], text.as_bytes()].concat();
            time(&mut Der::new(&bytes)).map(|time| time.to_string())
        };
        assert_eq!(read(UTC_TIME, "261126130500Z").as_deref(), Some("2026-11-26T13:05:00Z"));
        assert_eq!(read(UTC_TIME, "500101000000Z").as_deref(), Some("1950-01-01T00:00:00Z"));
        let long = read(GENERALIZED_TIME, "20991231235959Z");
        assert_eq!(long.as_deref(), Some("2099-12-31T23:59:59Z"));
        for (tag, text) in [
            (UTC_TIME, "2611261305Z"),
            (UTC_TIME, "261126130500"),
            (UTC_TIME, "261326130500Z"),
            (UTC_TIME, "26112613050\u{e9}Z"),
            (UTC_TIME, "+6112613050-Z"),
            (GENERALIZED_TIME, "261126130500Z"),
            (GENERALIZED_TIME, "20261126130500.5Z"),
            (OCTET_STRING, "261126130500Z"),
        ] {
            assert_eq!(read(tag, text), None, "{text}");
        }
    }
}
