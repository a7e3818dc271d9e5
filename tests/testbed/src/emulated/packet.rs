//! Packets are as a TUN device with IFF_VNET_HDR hands them over: up to 64 KiB of TCP
//! payload behind one header, to be split as a network card would split them (TCP
//! segmentation offload). Payload is never copied here: a segment is an index into its
//! packet, and a header made for it.

use std::{ops::Range, sync::Arc};

/// This is the size of `struct virtio_net_hdr` (include/uapi/linux/virtio_net.h):
/// flags, gso_type, hdr_len, gso_size, csum_start, csum_offset; in the host's byte
/// order.
pub const VNET_BYTES: usize = 10;
pub const VNET_NEEDS_CSUM: u8 = 1;
pub const VNET_GSO_NONE: u8 = 0;
pub const VNET_GSO_TCPV4: u8 = 1;
pub const VNET_GSO_TCPV6: u8 = 4;

/// The largest IPv4 (60) and TCP (60) headers have so many bytes.
const LARGEST_HEADER_BYTES: usize = 120;
const IPV6_HEADER_BYTES: usize = 40;
const PROTOCOL_TCP: u8 = 6;
/// The length of a TCP header without options.
const TCP_HEADER_BYTES: usize = 20;
/// The checksum in a TCP header is at this offset.
pub const TCP_CHECKSUM_AT: usize = 16;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const URG: u8 = 0x20;
pub const CWR: u8 = 0x80;

/// A packet from a device.
#[derive(Debug)]
pub struct Packet {
    vnet: [u8; VNET_BYTES],
    /// The bytes from the IP header on.
    bytes: Box<[u8]>,
    /// The layout of a TCP packet; none for what is not TCP, which is passed on as it
    /// came.
    tcp: Option<Layout>,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    ip_bytes: usize,
    /// IP and TCP.
    header_bytes: usize,
    /// Payload of each segment but the last.
    segment_bytes: usize,
    segments: u32,
}

impl Packet {
    /// Takes what one read of the device gave; none if that is no packet.
    #[must_use]
    pub fn new(frame: &[u8]) -> Option<Self> {
        let (vnet, bytes) = frame.split_first_chunk::<VNET_BYTES>()?;
        let segment_bytes = usize::from(u16::from_ne_bytes([vnet[4], vnet[5]]));
        let gso = vnet[1] != VNET_GSO_NONE;
        let tcp = Layout::of(bytes, gso.then_some(segment_bytes));
        (!bytes.is_empty()).then(|| Self { vnet: *vnet, bytes: bytes.into(), tcp })
    }

    /// Returns the packet's segments, in order.
    pub fn split(self) -> impl Iterator<Item = Segment> {
        let count = self.tcp.map_or(1, |tcp| tcp.segments);
        let packet = Arc::new(self);
        (0..count).map(move |index| Segment { packet: Arc::clone(&packet), index, marked: false })
    }

    #[must_use]
    pub fn vnet(&self) -> &[u8; VNET_BYTES] {
        &self.vnet
    }

    /// Returns the bytes from the IP header on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Layout {
    fn of(bytes: &[u8], segment_bytes: Option<usize>) -> Option<Self> {
        let ip_bytes = match bytes.first()? >> 4 {
            // A fragment (more to come, or an offset) is left as it is.
            4 if *bytes.get(9)? == PROTOCOL_TCP
                && u16::from_be_bytes([bytes[6], bytes[7]]) & 0x3fff == 0 =>
            {
                usize::from(bytes[0] & 0x0f) * 4
            }
            6 if *bytes.get(6)? == PROTOCOL_TCP => IPV6_HEADER_BYTES,
            _ => return None,
        };
        let header_bytes = ip_bytes + usize::from(*bytes.get(ip_bytes + 12)? >> 4) * 4;
        let payload_bytes = bytes.len().checked_sub(header_bytes)?;
        let segment_bytes = segment_bytes.unwrap_or(payload_bytes).max(1);
        let segments = u32::try_from(payload_bytes.div_ceil(segment_bytes).max(1)).ok()?;
        (header_bytes >= ip_bytes + TCP_HEADER_BYTES).then_some(Self {
            ip_bytes,
            header_bytes,
            segment_bytes,
            segments,
        })
    }
}

/// A segment goes over the wire as one packet.
#[derive(Clone, Debug)]
pub struct Segment {
    packet: Arc<Packet>,
    index: u32,
    marked: bool,
}

impl Segment {
    #[must_use]
    pub const fn packet(&self) -> &Arc<Packet> {
        &self.packet
    }

    /// Returns the length from the IP header on.
    #[must_use]
    pub fn wire_bytes(&self) -> u32 {
        let header_bytes = self.packet.tcp.map_or(0, |tcp| tcp.header_bytes);
        (header_bytes + self.payload().len()) as u32
    }

    /// Tells whether the segment is TCP with payload.
    #[must_use]
    pub fn carries_data(&self) -> bool {
        self.packet.tcp.is_some() && !self.payload().is_empty()
    }

    /// Tells whether the segment is TCP of a sender that understands marks: ECT(0) or
    /// ECT(1).
    #[must_use]
    pub fn is_markable(&self) -> bool {
        self.packet.tcp.is_some() && matches!(ecn(&self.packet.bytes), Some(1 | 2))
    }

    /// Marks the segment, from here on: "congestion experienced".
    pub const fn mark(&mut self) {
        self.marked = true;
    }

    /// Returns where the segment's payload lies in the packet; all of what is not TCP.
    #[must_use]
    pub fn payload(&self) -> Range<usize> {
        let end = self.packet.bytes.len();
        let Some(tcp) = self.packet.tcp else { return 0..end };
        let start = tcp.header_bytes + self.index as usize * tcp.segment_bytes;
        start..(start + tcp.segment_bytes).min(end)
    }

    /// Returns the header of this segment, as TSO makes it, but for the lengths and
    /// checksums that [`Header::seal`] puts in; none for what is not TCP.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        let tcp = self.packet.tcp?;
        let mut bytes = [0; LARGEST_HEADER_BYTES];
        bytes[..tcp.header_bytes].copy_from_slice(&self.packet.bytes[..tcp.header_bytes]);
        let mut header = Header { bytes, ip_bytes: tcp.ip_bytes, len: tcp.header_bytes };
        let offset = self.index.wrapping_mul(tcp.segment_bytes as u32);
        header.set_sequence(header.sequence().wrapping_add(offset));
        header.add_to_identification(self.index);
        // FIN and PSH belong to the end of the data, CWR to its beginning.
        if self.index + 1 < tcp.segments {
            header.clear_flags(FIN | PSH);
        }
        if self.index > 0 {
            header.clear_flags(CWR);
        }
        if self.marked {
            header.mark();
        }
        Some(header)
    }
}

/// Returns the two bits of explicit congestion notification: the low ones of IPv4's
/// second byte; in IPv6 the traffic class lies four bits higher.
fn ecn(bytes: &[u8]) -> Option<u8> {
    let shift = if bytes.first()? >> 4 == 4 { 0 } else { 4 };
    Some(bytes.get(1)? >> shift & 0b11)
}

/// An IP and TCP header.
#[derive(Clone, Debug)]
pub struct Header {
    bytes: [u8; LARGEST_HEADER_BYTES],
    ip_bytes: usize,
    len: usize,
}

impl Header {
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the length of the IP header alone.
    #[must_use]
    pub const fn ip_bytes(&self) -> usize {
        self.ip_bytes
    }

    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        self.bytes[0] >> 4 == 4
    }

    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.number(4)
    }

    /// Returns the sender's port and the receiver's.
    #[must_use]
    pub fn ports(&self) -> [u16; 2] {
        [0, 2].map(|at| {
            let bytes = self.bytes[self.ip_bytes + at..].first_chunk();
            bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
        })
    }

    #[must_use]
    pub fn acknowledgement(&self) -> u32 {
        self.number(8)
    }

    /// Returns the number at an offset in the TCP header.
    fn number(&self, offset: usize) -> u32 {
        let bytes = self.bytes[self.ip_bytes + offset..].first_chunk();
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    /// Returns the options of the TCP header.
    #[must_use]
    pub fn options(&self) -> &[u8] {
        &self.bytes()[self.ip_bytes + TCP_HEADER_BYTES..]
    }

    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.bytes[self.ip_bytes + 13]
    }

    pub const fn add_flags(&mut self, flags: u8) {
        self.bytes[self.ip_bytes + 13] |= flags;
    }

    const fn clear_flags(&mut self, flags: u8) {
        self.bytes[self.ip_bytes + 13] &= !flags;
    }

    const fn mark(&mut self) {
        self.bytes[1] |= if self.is_ipv4() { 0b11 } else { 0b11 << 4 };
    }

    fn set_sequence(&mut self, sequence: u32) {
        let at = self.ip_bytes + 4;
        self.bytes[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
    }

    fn add_to_identification(&mut self, index: u32) {
        if self.is_ipv4() {
            let first = u16::from_be_bytes([self.bytes[4], self.bytes[5]]);
            let own = first.wrapping_add(index as u16);
            self.bytes[4..6].copy_from_slice(&own.to_be_bytes());
        }
    }

    /// Tells whether both headers are of one flow and alike as receive offload (GRO)
    /// asks: equal but for length, identification, sequence number, checksums, flags.
    #[must_use]
    pub fn continues(&self, other: &Self) -> bool {
        if (self.len, self.ip_bytes) != (other.len, other.ip_bytes) {
            return false;
        }
        let same = |range: Range<usize>| self.bytes[range.clone()] == other.bytes[range];
        let ip = if self.is_ipv4() {
            same(0..2) && same(6..10) && same(12..self.ip_bytes)
        } else {
            same(0..4) && same(6..self.ip_bytes)
        };
        let tcp = self.ip_bytes;
        // Ports; acknowledgement and header length; window; options.
        ip && same(tcp..tcp + 4)
            && same(tcp + 8..tcp + 13)
            && same(tcp + 14..tcp + 16)
            && same(tcp + 18..self.len)
    }

    /// Puts in lengths and checksums for so much payload. The TCP checksum is
    /// that of the pseudo-header only: with VIRTIO_NET_HDR_F_NEEDS_CSUM the
    /// kernel completes it where it must (`CHECKSUM_PARTIAL`).
    pub fn seal(&mut self, payload_bytes: usize) {
        let tcp_bytes = (self.len - self.ip_bytes + payload_bytes) as u16;
        let addresses = if self.is_ipv4() {
            let total = (self.len + payload_bytes) as u16;
            self.bytes[2..4].copy_from_slice(&total.to_be_bytes());
            self.bytes[10..12].fill(0);
            let checksum = !folded(sum(&self.bytes[..self.ip_bytes]));
            self.bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            12..20
        } else {
            self.bytes[4..6].copy_from_slice(&tcp_bytes.to_be_bytes());
            8..40
        };
        let pseudo = sum(&self.bytes[addresses]) + u32::from(PROTOCOL_TCP) + u32::from(tcp_bytes);
        let at = self.ip_bytes + TCP_CHECKSUM_AT;
        self.bytes[at..at + 2].copy_from_slice(&folded(pseudo).to_be_bytes());
    }
}

/// Returns the sum of 16-bit words (RFC 1071); headers are of even length and far too
/// short to overflow it.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a frame as TUN gives it: `payload_bytes` of TCP in segments of `mss`.
    pub fn frame(ipv4: bool, flags: u8, payload_bytes: usize, mss: u16) -> Vec<u8> {
        let gso = payload_bytes > usize::from(mss);
        let kind = if ipv4 { VNET_GSO_TCPV4 } else { VNET_GSO_TCPV6 };
        let mut bytes = vec![VNET_NEEDS_CSUM, if gso { kind } else { VNET_GSO_NONE }, 0, 0];
        bytes.extend(if gso { mss } else { 0 }.to_ne_bytes());
        bytes.extend([0; 4]);
        let tcp_bytes = (32 + payload_bytes) as u16;
        if ipv4 {
            bytes.extend([0x45, 0]);
            bytes.extend((20 + tcp_bytes).to_be_bytes());
            bytes.extend([0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        } else {
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend(tcp_bytes.to_be_bytes());
            bytes.extend([6, 64]);
            bytes.extend((0..32).map(|at| at * 7));
        }
        bytes.extend([0x13, 0x89, 0xc0, 0x01, 0xff, 0xff, 0xf0, 0x00, 1, 2, 3, 4, 0x80, flags]);
        bytes.extend([1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
        bytes.extend((0..payload_bytes).map(|at| (at * 31 % 251) as u8));
        bytes
    }

    /// Returns an acknowledgement of what such frames carry, with these options.
    pub fn acknowledgement(number: u32, options: &[u8]) -> Vec<u8> {
        let mut bytes = frame(true, 0x10, 0, 1448);
        let tcp = VNET_BYTES + 20;
        let ports = [bytes[tcp + 2], bytes[tcp + 3], bytes[tcp], bytes[tcp + 1]];
        bytes[tcp..tcp + 4].copy_from_slice(&ports);
        bytes[tcp + 8..tcp + 12].copy_from_slice(&number.to_be_bytes());
        bytes.extend(options);
        bytes[tcp + 12] = ((bytes.len() - tcp) * 4) as u8;
        bytes
    }

    /// Returns the packet as the kernel would complete it, checksum included.
    fn on_the_wire(segment: &Segment) -> Vec<u8> {
        let mut header = segment.header().unwrap();
        header.seal(segment.payload().len());
        let mut bytes = header.bytes().to_vec();
        bytes.extend(&segment.packet().bytes()[segment.payload()]);
        let ip_bytes = header.ip_bytes();
        let checksum = 0xffff - remainder(&bytes[ip_bytes..]);
        bytes[ip_bytes + 16..ip_bytes + 18].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Returns the Internet checksum as RFC 1071 does not compute it: the number that
    /// all the bytes write, modulo 65535.
    fn remainder(bytes: &[u8]) -> u16 {
        let padding = bytes.len() % 2;
        let all = bytes.iter().chain(std::iter::repeat_n(&0, padding));
        all.fold(0_u64, |rest, byte| (rest * 256 + u64::from(*byte)) % 65_535) as u16
    }

    fn assert_checksums(wire: &[u8], ipv4: bool) {
        let ip_bytes = if ipv4 { 20 } else { 40 };
        let addresses = if ipv4 { &wire[12..20] } else { &wire[8..40] };
        let mut all = addresses.to_vec();
        all.extend([0, 6]);
        all.extend((wire.len() as u16 - ip_bytes).to_be_bytes());
        all.extend(&wire[usize::from(ip_bytes)..]);
        assert_eq!(remainder(&all), 0, "TCP");
        if ipv4 {
            assert_eq!(remainder(&wire[..20]), 0, "IP");
            assert_eq!(usize::from(u16::from_be_bytes([wire[2], wire[3]])), wire.len());
        }
    }

    #[test]
    fn splits_as_a_network_card_does() {
        let packet = Packet::new(&frame(true, 0x10 | PSH | FIN | CWR, 3000, 1448)).unwrap();
        let segments: Vec<_> = packet.split().collect();
        let wire: Vec<_> = segments.iter().map(on_the_wire).collect();
        assert_eq!(wire.iter().map(Vec::len).collect::<Vec<_>>(), [1500, 1500, 156]);
        assert_eq!(segments.iter().map(Segment::wire_bytes).sum::<u32>(), 3156);
        let sequence = |at: usize| segments[at].header().unwrap().sequence();
        assert_eq!(
            (sequence(0), sequence(1), sequence(2)),
            (0xffff_f000, 0xffff_f5a8, 0xffff_fb50)
        );
        let flags: Vec<_> = wire.iter().map(|bytes| bytes[33]).collect();
        assert_eq!(flags, [0x10 | CWR, 0x10, 0x10 | PSH | FIN]);
        // The identification wraps.
        let ids: Vec<_> = wire.iter().map(|bytes| [bytes[4], bytes[5]]).collect();
        assert_eq!(ids, [[0xff, 0xfe], [0xff, 0xff], [0, 0]]);
    }

    #[test]
    fn reads_ports_acknowledgements_and_options() {
        let frame = acknowledgement(0xfedc_ba98, &[1, 1, 4, 2]);
        let ack = Packet::new(&frame).unwrap().split().next().unwrap().header().unwrap();
        assert_eq!((ack.ports(), ack.acknowledgement()), ([0xc001, 0x1389], 0xfedc_ba98));
        assert!(ack.options().ends_with(&[1, 1, 4, 2]) && ack.options().len() == 16);
    }

    #[test]
    fn passes_what_is_not_tcp() {
        let mut icmp = vec![0; VNET_BYTES];
        icmp.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4]);
        icmp.extend([8, 0, 0, 0, 0, 0, 0, 0]);
        let segments: Vec<_> = Packet::new(&icmp).unwrap().split().collect();
        assert_eq!(segments.len(), 1);
        assert!(segments[0].header().is_none() && !segments[0].carries_data());
        assert_eq!(segments[0].wire_bytes(), 28);
    }

    #[test]
    fn marks_what_may_be_marked() {
        for (ipv4, at, ect, ce) in [(true, 1, 0b10, 0b11), (false, 1, 0x20, 0x30)] {
            let plain = Packet::new(&frame(ipv4, 0x10, 2000, 1448)).unwrap();
            assert!(plain.split().all(|segment| !segment.is_markable()));
            let mut bytes = frame(ipv4, 0x10, 2000, 1448);
            bytes[VNET_BYTES + at] |= ect;
            let mut segments: Vec<_> = Packet::new(&bytes).unwrap().split().collect();
            assert!(segments.iter().all(Segment::is_markable));
            segments[1].mark();
            let wire: Vec<_> = segments.iter().map(on_the_wire).collect();
            assert_eq!((wire[0][at], wire[1][at]), (ect, ce));
            assert_checksums(&wire[1], ipv4);
        }
    }

    #[test]
    fn an_ack_is_one_segment_without_data() {
        let segments: Vec<_> = Packet::new(&frame(true, 0x10, 0, 1448)).unwrap().split().collect();
        assert_eq!(segments.len(), 1);
        assert!(!segments[0].carries_data());
        assert_eq!(segments[0].wire_bytes(), 52);
    }

    proptest! {
        #[test]
        fn segments_make_up_the_packet(
            ipv4: bool, payload_bytes in 0_usize..65_000, mss in 88_u16..9000,
        ) {
            let frame = frame(ipv4, 0x18, payload_bytes, mss);
            let header_bytes = if ipv4 { 52 } else { 72 };
            let mut payload = Vec::<u8>::new();
            for segment in Packet::new(&frame).unwrap().split() {
                let wire = on_the_wire(&segment);
                prop_assert_eq!(wire.len(), segment.wire_bytes() as usize);
                prop_assert!(wire.len() - header_bytes <= usize::from(mss));
                assert_checksums(&wire, ipv4);
                let sequence = segment.header().unwrap().sequence();
                prop_assert_eq!(sequence.wrapping_sub(0xffff_f000) as usize, payload.len());
                payload.extend(&wire[header_bytes..]);
            }
            prop_assert_eq!(payload, &frame[VNET_BYTES + header_bytes..]);
        }

        #[test]
        fn garbage_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(packet) = Packet::new(&bytes) {
                for segment in packet.split() {
                    if let Some(mut header) = segment.header() {
                        header.seal(segment.payload().len());
                    }
                }
            }
        }
    }
}
