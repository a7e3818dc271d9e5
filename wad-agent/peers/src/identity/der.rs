//! Reads DER (X.690), as far as certificates need it: strictly, and never beyond what there is.

/// Tags, class and form included.
pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT_IDENTIFIER: u8 = 0x06;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;

/// Reads one element after the other.
#[derive(Clone, Copy, Debug)]
pub struct Der<'d>(&'d [u8]);

/// An element: its tag, what is in it, and all of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Element<'d> {
    pub tag: u8,
    pub content: &'d [u8],
    pub whole: &'d [u8],
}

impl<'d> Der<'d> {
    pub const fn new(bytes: &'d [u8]) -> Self {
        Self(bytes)
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next element, whatever it is.
    pub fn next(&mut self) -> Option<Element<'d>> {
        let whole = self.0;
        let (&tag, rest) = whole.split_first()?;
        // Tags of more than a byte are none of a certificate's.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long => {
                let bytes = usize::from(long & 0x7f);
                // None is the form without an end, and four are enough for anything.
                if !(1..=4).contains(&bytes) {
                    return None;
                }
                let (digits, rest) = rest.split_at_checked(bytes)?;
                let length = digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit));
                // The shortest form is the only one (X.690 section 10.1).
                if digits[0] == 0 || length < 0x80 {
                    return None;
                }
                (length, rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Element { tag, content, whole: &whole[..whole.len() - rest.len()] })
    }

    /// Takes the next element if it has this tag.
    pub fn optional(&mut self, tag: u8) -> Option<Element<'d>> {
        let mut ahead = *self;
        let element = ahead.next().filter(|element| element.tag == tag)?;
        *self = ahead;
        Some(element)
    }

    /// Takes the next element, which has to have this tag.
    pub fn expect(&mut self, tag: u8) -> Option<Element<'d>> {
        self.next().filter(|element| element.tag == tag)
    }

    /// Takes the next element, and goes into it.
    pub fn enter(&mut self, tag: u8) -> Option<Self> {
        self.expect(tag).map(|element| Self(element.content))
    }
}

/// Reads a truth value: one byte, 0 or 255 (X.690 section 11.1).
pub const fn boolean(content: &[u8]) -> Option<bool> {
    match content {
        [0] => Some(false),
        [0xff] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_one_after_the_other() {
        let long = [&[OCTET_STRING, 0x81, 0x80][..], &[7; 0x80]].concat();
        let bytes = [&[SEQUENCE, 3, INTEGER, 1, 5, BOOLEAN, 1, 0xff][..], &long].concat();
        let mut der = Der::new(&bytes);
        let mut inner = der.enter(SEQUENCE).unwrap();
        assert_eq!(inner.expect(INTEGER).unwrap().content, [5]);
        assert!(inner.is_empty() && inner.next().is_none());
        assert!(der.optional(INTEGER).is_none());
        let element = der.optional(BOOLEAN).unwrap();
        assert_eq!((boolean(element.content), element.whole.len()), (Some(true), 3));
        let last = der.expect(OCTET_STRING).unwrap();
        assert_eq!((last.content.len(), last.whole), (0x80, &long[..]));
        assert!(der.is_empty());
    }

    #[test]
    fn what_is_not_der_is_refused() {
        for bytes in [
            &[][..],
            &[INTEGER],
            &[INTEGER, 2, 1],
            // Longer than need be.
            &[INTEGER, 0x81, 1, 1],
            &[INTEGER, 0x82, 0, 1, 1],
            // Without an end.
            &[SEQUENCE, 0x80, 0, 0],
            &[INTEGER, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[INTEGER, 0x85, 1, 0, 0, 0, 0],
            &[0x1f, 0x81, 1, 1],
        ] {
            assert!(Der::new(bytes).next().is_none(), "{bytes:02x?}");
        }
        assert_eq!([boolean(&[1]), boolean(&[]), boolean(&[0, 0])], [None; 3]);
    }
}
