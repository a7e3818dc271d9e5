//! Segments that arrive together are joined for delivery as a network card's receive
//! offload (GRO) joins them. Joining is only about cost: loss, queue and delay have
//! acted on single segments before.

use std::{ops::Range, sync::Arc};

use super::packet::{
    CWR, FIN, Header, PSH, Packet, RST, SYN, Segment, TCP_CHECKSUM_AT, URG, VNET_BYTES,
    VNET_GSO_NONE, VNET_GSO_TCPV4, VNET_GSO_TCPV6, VNET_NEEDS_CSUM,
};

/// IPv4's total length is 16 bits; GRO's limit is the same.
const MOST_BYTES: usize = 65_535;
/// So many pieces of payload from different packets make a burst at most, kept well
/// below IOV_MAX (1024).
const MOST_PIECES: usize = 62;

/// One packet to deliver, of one or more segments.
#[derive(Debug, Default)]
pub struct Burst {
    vnet: [u8; VNET_BYTES],
    /// The headers of the packet; none for what is not TCP.
    header: Option<Header>,
    pieces: Vec<(Arc<Packet>, Range<usize>)>,
    segments: u32,
    segment_bytes: usize,
    payload_bytes: usize,
    /// Nothing may follow: a flag, or a short segment, has ended it.
    closed: bool,
}

impl Burst {
    /// Adds a segment, if it continues this burst; an empty one takes any.
    pub fn push(&mut self, segment: &Segment) -> bool {
        if self.segments == 0 {
            self.start(segment);
            return true;
        }
        let (Some(own), Some(next)) = (&mut self.header, segment.header()) else { return false };
        let payload = segment.payload();
        let expected = own.sequence().wrapping_add(self.payload_bytes as u32);
        if self.closed
            || next.sequence() != expected
            || payload.is_empty()
            || payload.len() > self.segment_bytes
            || next.flags() & (SYN | RST | URG | CWR) != 0
            || own.bytes().len() + self.payload_bytes + payload.len() > MOST_BYTES
            || !next.continues(own)
        {
            return false;
        }
        let joins = self.pieces.last().is_some_and(|(packet, range)| {
            Arc::ptr_eq(packet, segment.packet()) && range.end == payload.start
        });
        if !joins && self.pieces.len() == MOST_PIECES {
            return false;
        }
        own.add_flags(next.flags());
        self.closed = next.flags() & (FIN | PSH) != 0 || payload.len() < self.segment_bytes;
        self.payload_bytes += payload.len();
        self.segments += 1;
        match self.pieces.last_mut().filter(|_| joins) {
            Some((_, range)) => range.end = payload.end,
            None => self.pieces.push((Arc::clone(segment.packet()), payload)),
        }
        true
    }

    fn start(&mut self, segment: &Segment) {
        let payload = segment.payload();
        self.header = segment.header();
        self.vnet = *segment.packet().vnet();
        self.segments = 1;
        self.segment_bytes = payload.len();
        self.payload_bytes = payload.len();
        let ends = |header: &Header| header.flags() & (FIN | SYN | RST | PSH | URG) != 0;
        self.closed = payload.is_empty() || self.header.as_ref().is_none_or(ends);
        self.pieces.push((Arc::clone(segment.packet()), payload));
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.segments == 0
    }

    #[must_use]
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// Completes headers: what to write to the device, in parts.
    pub fn seal(&mut self) -> impl Iterator<Item = &[u8]> {
        if let Some(header) = &mut self.header {
            header.seal(self.payload_bytes);
            self.vnet = vnet(header, self.segments, self.segment_bytes);
        }
        let header = self.header.as_ref().map(Header::bytes);
        let pieces = self.pieces.iter().map(|(packet, range)| &packet.bytes()[range.clone()]);
        std::iter::once(self.vnet.as_slice()).chain(header).chain(pieces)
    }

    /// Empties the burst for the next one.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.segments = 0;
    }
}

fn vnet(header: &Header, segments: u32, segment_bytes: usize) -> [u8; VNET_BYTES] {
    let kind = match (segments, header.is_ipv4()) {
        (1, _) => VNET_GSO_NONE,
        (_, true) => VNET_GSO_TCPV4,
        (_, false) => VNET_GSO_TCPV6,
    };
    let segment_bytes = if segments == 1 { 0 } else { segment_bytes };
    let mut bytes = [VNET_NEEDS_CSUM, kind, 0, 0, 0, 0, 0, 0, 0, 0];
    let fields = [header.bytes().len(), segment_bytes, header.ip_bytes(), TCP_CHECKSUM_AT];
    for (place, field) in bytes[2..].chunks_exact_mut(2).zip(fields) {
        place.copy_from_slice(&(field as u16).to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::emulated::packet::tests::frame;

    fn segments(frame: &[u8]) -> Vec<Segment> {
        Packet::new(frame).unwrap().split().collect()
    }

    /// Returns what is written when these arrive together.
    fn deliver(segments: &[Segment]) -> Vec<Vec<u8>> {
        let (mut burst, mut frames) = (Burst::default(), Vec::new());
        for segment in segments {
            if !burst.push(segment) {
                frames.push(burst.seal().flatten().copied().collect());
                burst.clear();
                assert!(burst.push(segment));
            }
        }
        frames.push(burst.seal().flatten().copied().collect());
        frames
    }

    /// Returns `frame` with the sequence number moved on, as the next packet of a flow.
    fn later(ipv4: bool, payload_bytes: usize, by: u32) -> Vec<u8> {
        let mut bytes = frame(ipv4, 0x10, payload_bytes, 1448);
        let at = VNET_BYTES + if ipv4 { 24 } else { 44 };
        let sequence = u32::from_be_bytes(*bytes[at..].first_chunk().unwrap()).wrapping_add(by);
        bytes[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
        bytes
    }

    fn vnet_fields(frame: &[u8]) -> (u8, u16, u16) {
        let field = |at: usize| u16::from_ne_bytes([frame[at], frame[at + 1]]);
        (frame[1], field(2), field(4))
    }

    #[test]
    fn joins_packets_of_a_flow() {
        let mut all = segments(&frame(true, 0x10, 2896, 1448));
        all.extend(segments(&later(true, 1448 * 3, 2896)));
        let frames = deliver(&all);
        assert_eq!(frames.len(), 1);
        assert_eq!(vnet_fields(&frames[0]), (VNET_GSO_TCPV4, 52, 1448));
        assert_eq!(frames[0].len(), VNET_BYTES + 52 + 5 * 1448);
    }

    #[test]
    fn a_gap_starts_a_new_burst() {
        let mut all = segments(&frame(false, 0x10, 1448 * 5, 1448));
        all.remove(2);
        let frames = deliver(&all);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [VNET_BYTES + 72 + 2896; 2]);
        let at = VNET_BYTES + 44;
        assert_eq!(frames[1][at..at + 4], 0xffff_f000_u32.wrapping_add(3 * 1448).to_be_bytes());
    }

    #[test]
    fn flags_short_segments_and_acks_end_it() {
        let mut all = segments(&frame(true, 0x10, 2000, 1448));
        all.extend(segments(&later(true, 1448, 2000)));
        assert_eq!(deliver(&all).len(), 2, "after a short one");
        let mut all = segments(&frame(true, 0x10 | PSH, 1448, 1448));
        all.extend(segments(&later(true, 1448, 1448)));
        assert_eq!(deliver(&all).len(), 2, "after a push");
        let acks = [segments(&frame(true, 0x10, 0, 1448)), segments(&frame(true, 0x10, 0, 1448))];
        assert_eq!(deliver(&acks.concat()).len(), 2, "acknowledgements stay apart");
    }

    #[test]
    fn never_exceeds_what_ip_can_carry() {
        let all: Vec<_> =
            (0..100).flat_map(|number| segments(&later(true, 1448, number * 1448))).collect();
        let frames = deliver(&all);
        assert!(frames.iter().all(|frame| frame.len() <= VNET_BYTES + MOST_BYTES));
        assert_eq!(frames.len(), 3);
    }

    proptest! {
        #[test]
        fn split_and_joined_is_as_before(
            ipv4: bool, flags in prop::sample::select(vec![0x10_u8, 0x18, 0x11]),
            payload_bytes in 1_usize..65_000, mss in 88_u16..9000,
        ) {
            let before = frame(ipv4, flags, payload_bytes, mss);
            let frames = deliver(&segments(&before));
            prop_assert_eq!(frames.len(), 1);
            // From the IP header on, all but the checksums: the test's are 0.
            let mut after = frames[0][VNET_BYTES..].to_vec();
            let ip_bytes = if ipv4 { 20 } else { 40 };
            if ipv4 {
                after[10..12].fill(0);
            }
            after[ip_bytes + 16..ip_bytes + 18].fill(0);
            prop_assert_eq!(&after, &before[VNET_BYTES..]);
        }
    }
}
