//! Reads by what a peer is known: the name in its certificate, or its key.

use std::fmt::{self, Debug, Display};

use super::super::{
    fault::{Fault, quoted},
    host_name,
};

/// The scheme of identities: `wad://dtn.example.org`.
const SCHEME: &str = "wad://";
/// The hash of a key: of its DER form, SubjectPublicKeyInfo (RFC 5280 section 4.1).
const HASH: &str = "sha256:";

/// Says by what a peer is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KnownBy {
    /// The name in its certificate, which is of an authority that this end trusts.
    Name(String),
    /// Its key, whoever made the certificate.
    Key(KeyPin),
}

/// The SHA-256 hash of a certificate's SubjectPublicKeyInfo.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyPin(pub [u8; 32]);

impl KnownBy {
    /// Reads `wad://NAME`.
    pub fn identity(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            let title = format!("{} is no identity", quoted(text));
            Fault::new(title, "must be wad://NAME, as in the peer's certificate")
                .help("`wad peer show` of the other end has it; its prefixes do not belong here")
        };
        let name = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let name = name.strip_suffix('/').unwrap_or(name);
        if is_node_name(name) { Ok(Self::Name(name.to_owned())) } else { Err(wrong()) }
    }

    /// Reads `sha256:` and 64 hexadecimal digits.
    pub fn key(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            Fault::new("this is no hash of a key", "must be sha256: and 64 hexadecimal digits")
                .help("`wad peer show` of the other end has it")
        };
        KeyPin::parse(text).map(Self::Key).ok_or_else(wrong)
    }
}

/// Says whether a name may stand in an identity: that of a host, in small letters.
pub fn is_node_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    // Not as a number alone would be taken for an address.
    name.bytes().all(|byte| is_plain(byte) || matches!(byte, b'.' | b'-' | b'_'))
        && host_name::parse(name).is_ok_and(|parsed| parsed == name)
}

impl KeyPin {
    /// Reads it as it is shown.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(HASH)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |of: u8| char::from(of).to_digit(16);
            *byte = u8::try_from(16 * digit(pair[0])? + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl Display for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASH)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Debug for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl Display for KnownBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{SCHEME}{name}"),
            Self::Key(pin) => write!(f, "{pin}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_name_and_nothing_else() {
        for text in ["wad://dtn.example.org", "wad://dtn.example.org/", "wad://a"] {
            let known = KnownBy::identity(text).unwrap();
            assert_eq!(known.to_string(), text.trim_end_matches('/'));
        }
        for text in [
            "",
            "wad://",
            "wad:///",
            "wad://A",
            "wad://a.",
            "wad://a//",
            "wad://a/b",
            "wad://a/?prefix=192.0.2.0/24",
            "wad://a:1",
            "wad://u@a",
            "wad://192.0.2.1",
            "wad://b\u{fc}cher",
            "https://a",
            "spiffe://a",
        ] {
            assert!(KnownBy::identity(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_is_known_by_its_hash() {
        let text = format!("sha256:{}", "0f".repeat(32));
        assert_eq!(KnownBy::key(&text).unwrap().to_string(), text);
        assert_eq!(KeyPin::parse(&text.to_uppercase().replace("SHA", "sha")), KeyPin::parse(&text));
        for text in [
            "",
            "sha256:",
            &"0f".repeat(32),
            &format!("sha256:{}", "0f".repeat(31)),
            &format!("sha256:{}g", &"0f".repeat(32)[1..]),
            &format!("sha256:{}+", &"0f".repeat(32)[1..]),
            &format!("sha1:{}", "0f".repeat(20)),
        ] {
            assert!(KnownBy::key(text).is_err(), "{text}");
        }
    }
}
