//! Differentiated services code points, by number or by name.

use toml::de::DeValue;

use super::{
    fault::{Fault, quoted},
    table,
};

const MAX: u64 = 63;

/// "ef", "af11", 46: six bits (RFC 2474).
pub fn parse(value: &DeValue<'_>) -> Result<u8, Fault> {
    match value {
        // In range, hence whole.
        DeValue::Integer(_) => Ok(table::integer(value, 0..=MAX, "")? as u8),
        DeValue::String(name) => by_name(&name.to_ascii_lowercase()).ok_or_else(|| {
            let title = format!("{} is no DSCP", quoted(name));
            Fault::new(title, format!("a number from 0 to {MAX}, or a name")).help(
                "there are default (or be), le, cs0 to cs7, af11 to af43, va (voice-admit) and ef",
            )
        }),
        _ => Err(table::wrong_type(value, "a number or a name such as \"le\"")),
    }
}

fn by_name(name: &str) -> Option<u8> {
    match *name.as_bytes() {
        // RFC 2474 section 4.2.2.
        [b'c', b's', class @ b'0'..=b'7'] => Some(8 * (class - b'0')),
        // RFC 2597 section 6: a class, and the precedence of drops.
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Some(8 * (class - b'0') + 2 * (drop - b'0'))
        }
        _ => match name {
            // RFC 2474 section 4.1; RFC 8622; RFC 5865; RFC 3246.
            "default" | "be" => Some(0),
            "le" => Some(1),
            "va" | "voice-admit" => Some(44),
            "ef" => Some(46),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::by_name;

    #[test]
    fn names_are_those_of_the_registry() {
        for (name, code) in [
            ("cs0", 0),
            ("cs7", 56),
            ("af11", 10),
            ("af43", 38),
            ("ef", 46),
            ("le", 1),
            ("va", 44),
            ("default", 0),
        ] {
            assert_eq!(by_name(name), Some(code), "{name}");
        }
        for name in ["", "cs8", "af10", "af44", "af51", "af1", "ef ", "46"] {
            assert_eq!(by_name(name), None, "{name}");
        }
    }
}
