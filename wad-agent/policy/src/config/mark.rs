//! Reads which marks a path is for, as `ip rule` writes them.

use std::fmt::{self, Display};

use toml::de::DeValue;

use super::{
    fault::{Fault, Problems, quoted},
    table::{self, Table},
};

const KEY: &str = "mark";
const EXPECTED: &str = "a number, or one with a mask such as \"0x10/0xff\"";

/// A mark, and the bits of it that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// No bit is set that is not in `mask`.
    pub value: u32,
    /// It is 0 for any mark, which no path has.
    pub mask: u32,
}

impl Mark {
    pub const ANY: Self = Self { value: 0, mask: 0 };

    /// Whether a socket of this mark is meant.
    #[must_use]
    pub const fn has(self, mark: u32) -> bool {
        mark & self.mask == self.value
    }

    /// Whether there is a mark that both have.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        (self.value ^ other.value) & self.mask & other.mask == 0
    }
}

/// A mark is written as `ip rule` does.
impl Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mask {
            u32::MAX => write!(f, "mark {:#x}", self.value),
            mask => write!(f, "mark {:#x}/{mask:#x}", self.value),
        }
    }
}

/// Returns the marks; None for any, or where something is wrong.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<Mark> {
    let mark = table.read(KEY, problems, |value| match value {
        DeValue::Integer(_) => {
            let number = table::integer(value, 0..=u32::MAX.into(), "")?;
            Ok(Mark { value: number as u32, mask: u32::MAX })
        }
        DeValue::String(text) => parse(text),
        _ => Err(table::wrong_type(value, EXPECTED)),
    });
    mark.map(|mark| mark.value)
}

fn parse(text: &str) -> Result<Mark, Fault> {
    let (value, mask) = text.split_once('/').map_or((text, None), |(v, mask)| (v, Some(mask)));
    let (Some(value), Some(mask)) = (number(value), mask.map_or(Some(u32::MAX), number)) else {
        let fault = Fault::new(format!("{} is no mark", quoted(text)), "not one of 32 bits");
        return Err(fault.help("write \"0x10\", or with the bits that count \"0x10/0xff\""));
    };
    if mask == 0 {
        return Err(Fault::new("the mask is 0", "any mark fits").help("leave the key out"));
    }
    if value & !mask != 0 {
        let fault = Fault::new("no socket can have this mark", "it has bits that the mask has not");
        return Err(fault.help("leave these bits out of the mark, or put them into the mask"));
    }
    Ok(Mark { value, mask })
}

/// Reads one number of a mark, in decimal digits, or hexadecimal ones behind 0x.
pub fn number(text: &str) -> Option<u32> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    // The library takes a sign, too.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        for (text, value, mask, shown) in [
            ("16", 0x10, u32::MAX, "mark 0x10"),
            ("0x10", 0x10, u32::MAX, "mark 0x10"),
            ("0", 0, u32::MAX, "mark 0x0"),
            ("0xffffffff", u32::MAX, u32::MAX, "mark 0xffffffff"),
            ("0x10/0xff", 0x10, 0xff, "mark 0x10/0xff"),
            ("1/3", 1, 3, "mark 0x1/0x3"),
        ] {
            let mark = parse(text).unwrap();
            assert_eq!((mark, mark.to_string().as_str()), (Mark { value, mask }, shown));
        }
        let wrong = ["", "+1", "-1", "0x", "0x+1", "1/", "/1", "1/2/3", "0x100000000", "ff", " 1"];
        for text in wrong.into_iter().chain(["1/0", "3/1", "0/+1"]) {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bits_beside_the_mask_do_not_count() {
        let mark = Mark { value: 0x10, mask: 0xff };
        assert!(mark.has(0x10) && mark.has(0x1110) && !mark.has(0x11) && !mark.has(0));
        assert!(mark.meets(Mark::ANY) && mark.meets(Mark { value: 0x100, mask: 0xf00 }));
        assert!(!mark.meets(Mark { value: 0, mask: 0x10 }));
    }
}
