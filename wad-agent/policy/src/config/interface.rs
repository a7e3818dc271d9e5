//! Reads the interfaces that a path is for.

use std::fmt;

use wad_common::policy::INTERFACE_BYTES;

use super::{
    fault::{Fault, Problems, quoted},
    table::{self, Table},
};

const KEY: &str = "interface";

/// A pattern of interfaces: a name, or how names begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterfacePattern {
    /// The name or its beginning, filled up with zeros.
    name: [u8; INTERFACE_BYTES],
    /// The bits of names that must agree: of a whole name, those of its final zero, too.
    bits: u8,
}

impl InterfacePattern {
    /// Returns the bytes of names that begin so, and how many of their bits must agree.
    #[must_use]
    pub const fn prefix(self) -> ([u8; INTERFACE_BYTES], u8) {
        (self.name, self.bits)
    }

    /// Whether an interface of this name is meant.
    #[must_use]
    pub fn fits(self, name: &str) -> bool {
        padded(name).is_some_and(|name| self.has(u128::from_be_bytes(name)))
    }

    /// Whether all that fit another fit this one, too.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        self.bits <= other.bits && self.has(u128::from_be_bytes(other.name))
    }

    /// Returns the first and the last name that fit, as numbers.
    #[must_use]
    pub const fn range(self) -> (u128, u128) {
        let first = u128::from_be_bytes(self.name);
        (first, first | !self.mask())
    }

    const fn has(self, name: u128) -> bool {
        (name ^ u128::from_be_bytes(self.name)) & self.mask() == 0
    }

    /// No pattern is of no bits.
    const fn mask(self) -> u128 {
        u128::MAX << (u128::BITS - self.bits as u32)
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: Vec<u8> = self.name.into_iter().take_while(|byte| *byte != 0).collect();
        let is_whole = usize::from(self.bits) > 8 * name.len();
        let star = if is_whole { "" } else { "*" };
        write!(f, "{KEY} {}{star}", String::from_utf8_lossy(&name))
    }
}

/// Returns the pattern; None for any interface, or where something is wrong.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<InterfacePattern> {
    table.read(KEY, problems, |value| parse(table::text(value)?)).map(|pattern| pattern.value)
}

pub fn parse(text: &str) -> Result<InterfacePattern, Fault> {
    if text == "*" {
        return Err(Fault::new("any interface fits", "this is all").help("leave the key out"));
    }
    let beginning = text.strip_suffix('*');
    let name = beginning.unwrap_or(text);
    let is_possible = beginning.is_some() || is_name(name);
    let is_plain = is_possible && !name.contains(['*', '?']);
    let Some(padded) = padded(name).filter(|_| is_plain) else {
        let most = INTERFACE_BYTES - 1;
        let fault = Fault::new(format!("{} is no interface", quoted(text)), "no name of one");
        return Err(fault.help(format!(
            "write its name as `ip link` shows it, of at most {most} bytes, such as \"eth1\", or \
             \"eth*\" for all that begin so"
        )));
    };
    // Nothing longer begins with a name of all the bytes that there are.
    let counted = match beginning {
        Some(name) if name.len() < INTERFACE_BYTES - 1 => name.len(),
        _ => name.len() + 1,
    };
    Ok(InterfacePattern { name: padded, bits: 8 * counted as u8 })
}

/// Whether an interface can have this name (`dev_valid_name()`).
#[must_use]
pub fn is_name(name: &str) -> bool {
    padded(name).is_some() && name != "." && name != ".."
}

/// Returns the name, or the beginning of one, filled up with zeros; None where none is like
/// that.
fn padded(name: &str) -> Option<[u8; INTERFACE_BYTES]> {
    let is_possible = |c: char| !c.is_whitespace() && !c.is_control() && !"/:".contains(c);
    let mut padded = [0; INTERFACE_BYTES];
    let is_one = !name.is_empty() && name.len() < padded.len() && name.chars().all(is_possible);
    padded.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
    is_one.then_some(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> InterfacePattern {
        parse(text).unwrap()
    }

    #[test]
    fn a_name_is_that_one_and_a_star_is_all_that_begin_so() {
        for (text, fitting, others) in [
            ("eth1", &["eth1"][..], &["eth", "eth10", "eth1.5", "eth2", ""][..]),
            ("eth*", &["eth", "eth0", "eth10", "eth1.5"], &["et", "veth0", "Eth0"]),
            ("e*", &["e", "ens3np0", "enp129s0f0np0v1"], &["lo"]),
            ("enp129s0f0np0v1", &["enp129s0f0np0v1"], &["enp129s0f0np0v"]),
            ("enp129s0f0np0v1*", &["enp129s0f0np0v1"], &["enp129s0f0np0v2"]),
        ] {
            assert!(fitting.iter().all(|name| pattern(text).fits(name)), "{text}");
            assert!(!others.iter().any(|name| pattern(text).fits(name)), "{text}");
            let shown = pattern(text).to_string();
            assert_eq!(pattern(shown.strip_prefix("interface ").unwrap()), pattern(text));
        }
        assert_eq!(pattern("eth*").to_string(), "interface eth*");
        assert_eq!(pattern("eth1").to_string(), "interface eth1");
    }

    #[test]
    fn patterns_are_one_within_the_other_or_apart() {
        let texts = ["eth*", "et*", "eth1", "eth", "eth10*", "lo"];
        for (one, other, covers) in texts
            .iter()
            .flat_map(|one| texts.iter().map(move |other| (*one, *other)))
            .map(|(one, other)| {
                let is_star = one.strip_suffix('*').is_some_and(|own| other.starts_with(own));
                (one, other, one == other || is_star)
            })
        {
            assert_eq!(pattern(one).covers(pattern(other)), covers, "{one} {other}");
            let ((first, last), (least, most)) = (pattern(one).range(), pattern(other).range());
            assert_eq!(first <= least && most <= last, covers, "{one} {other}");
        }
    }

    #[test]
    fn what_no_interface_is_called_is_refused() {
        for text in
            ["", "*", "e*h", "**", "et?", "a b", ".", "a/b", "eth0:1", "0123456789abcdef", "ä\n"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(is_name("eth0") && is_name("0123456789abcde") && is_name("bücher"));
        assert!(!is_name("") && !is_name("..") && !is_name("0123456789abcdef"));
    }
}
