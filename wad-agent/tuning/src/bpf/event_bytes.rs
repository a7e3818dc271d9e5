//! Turns bytes of the ring buffer into an event.

use wad_common::event::Event;

use super::records;

/// `None` where there are too few bytes. More are none of ours to judge: the
/// kernel rounds records up to 8 bytes.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Event> {
    bytes.get(..size_of::<Event>()).map(records::read)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::bpf::testing::event;

    fn bytes(event: &Event) -> Vec<u8> {
        // SAFETY: a record has no padding, so all of its bytes are initialised.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(event).cast(), size_of::<Event>()) }
            .to_vec()
    }

    #[test]
    fn any_length_and_any_alignment() {
        let whole = bytes(&event());
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None);
        }
        for offset in 0..8 {
            let mut shifted = vec![0xff; offset];
            shifted.extend(&whole);
            shifted.push(0xff);
            assert_eq!(parse(&shifted[offset..]), Some(event()));
        }
    }

    #[test]
    fn any_bytes_are_an_event() {
        assert!(parse(&[0xff; size_of::<Event>()]).is_some_and(|event| event.kind == u32::MAX));
    }
}
