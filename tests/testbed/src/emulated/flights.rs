//! The path itself sees what of each flow is on its way: what has come from the sender,
//! less what the acknowledgements say that have gone back to it. A window that bounds a
//! flow can be judged by that, whatever the sender's kernel says of it. Times are
//! CLOCK_MONOTONIC nanoseconds; sequence numbers wrap.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock},
};

use super::{
    packet::{Header, SYN, Segment},
    sack,
};
use crate::mutex::locked;

/// A flight is so many bytes of payload, from this time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    pub time_ns: u64,
    pub bytes: u32,
}

/// The flows that send on the way there, by their ports: here, and there.
#[derive(Clone, Debug, Default)]
pub struct Flights(HashMap<[u16; 2], Flow>);

#[derive(Clone, Debug, Default)]
struct Flow {
    /// One after the last byte that was sent.
    sent: u32,
    /// One after the last byte that was acknowledged.
    acknowledged: u32,
    /// Bytes that the last acknowledgement says to have arrived beyond.
    sacked_bytes: u32,
    course: Vec<Flight>,
}

impl Flights {
    /// Notes that a segment has come from its sender.
    fn sent(&mut self, time_ns: u64, header: &Header, payload_bytes: usize) {
        let flow = self.0.entry(header.ports()).or_default();
        let begins = header.flags() & SYN != 0;
        let first = header.sequence().wrapping_add(u32::from(begins));
        if begins || flow.course.is_empty() {
            (flow.sent, flow.acknowledged, flow.sacked_bytes) = (first, first, 0);
        }
        let end = first.wrapping_add(payload_bytes as u32);
        if is_after(end, flow.sent) {
            flow.sent = end;
        }
        flow.note(time_ns);
    }

    /// Notes that an acknowledgement goes to the sender.
    ///
    /// It can name three stretches of bytes beyond the first gap, beside timestamps
    /// (RFC 2018): of those that arrived between more gaps some seem to be on their way.
    fn acknowledged(&mut self, time_ns: u64, header: &Header) {
        let [there, here] = header.ports();
        let Some(flow) = self.0.get_mut(&[here, there]) else { return };
        let mut acknowledged = header.acknowledgement();
        // A FIN counts as a byte.
        if is_after(acknowledged, flow.sent) {
            acknowledged = flow.sent;
        }
        // It was overtaken, and says nothing new.
        if is_after(flow.acknowledged, acknowledged) {
            return;
        }
        flow.acknowledged = acknowledged;
        let beyond =
            sack::blocks(header.options()).filter(|[start, _]| is_after(*start, acknowledged));
        flow.sacked_bytes = beyond.map(|[start, end]| end.wrapping_sub(start)).sum();
        flow.note(time_ns);
    }

    /// Returns the course of a flow, in order of time; empty if none has these ports.
    #[must_use]
    pub fn of(&self, ports: [u16; 2]) -> &[Flight] {
        self.0.get(&ports).map_or(&[], |flow| &flow.course)
    }
}

impl Flow {
    fn note(&mut self, time_ns: u64) {
        let beyond = self.sent.wrapping_sub(self.acknowledged);
        let bytes = beyond.saturating_sub(self.sacked_bytes);
        // The two directions are threads of their own, each with its own clock reading.
        let last = self.course.last().copied();
        if last.is_none_or(|last| last.bytes != bytes) {
            let time_ns = last.map_or(time_ns, |last| last.time_ns.max(time_ns));
            self.course.push(Flight { time_ns, bytes });
        }
    }
}

/// The directions of a path keep flights in a record, which is nowhere until it is
/// asked for, so that an experiment that has no use for it does not pay for it.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<OnceLock<Mutex<Flights>>>);

impl Record {
    /// Keeps flights from now on.
    pub fn begin(&self) {
        self.0.get_or_init(Mutex::default);
    }

    /// Returns the flights as they are now.
    #[must_use]
    pub fn so_far(&self) -> Flights {
        self.0.get().map_or_else(Flights::default, |flights| locked(flights).clone())
    }

    fn note(&self, segment: &Segment, note: impl FnOnce(&mut Flights, &Header)) {
        if let Some(flights) = self.0.get()
            && let Some(header) = segment.header()
        {
            note(&mut locked(flights), &header);
        }
    }
}

/// Tells what a direction has to do with flights.
#[derive(Debug)]
pub enum Part {
    Data(Record),
    Acknowledgements(Record),
}

impl Part {
    /// Notes that the direction takes a segment in.
    pub fn came(&self, time_ns: u64, segment: &Segment) {
        if let Self::Data(record) = self {
            let payload_bytes = segment.payload().len();
            record.note(segment, |flights, header| flights.sent(time_ns, header, payload_bytes));
        }
    }

    /// Notes that the direction hands a segment on.
    pub fn goes(&self, time_ns: u64, segment: &Segment) {
        if let Self::Acknowledgements(record) = self {
            record.note(segment, |flights, header| flights.acknowledged(time_ns, header));
        }
    }
}

const fn is_after(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::packet::{Packet, tests as packets};

    const PORTS: [u16; 2] = [5001, 49_153];

    /// Returns the segments of one packet, whose bytes begin with 0xffff_f000.
    fn data(payload_bytes: usize) -> Vec<Segment> {
        let frame = packets::frame(true, 0x10, payload_bytes, 1448);
        Packet::new(&frame).unwrap().split().collect()
    }

    fn send(record: &Record, time_ns: u64, segments: &[Segment]) {
        let forward = Part::Data(record.clone());
        segments.iter().for_each(|segment| forward.came(time_ns, segment));
        // Only their coming counts.
        segments.iter().for_each(|segment| forward.goes(time_ns, segment));
    }

    fn acknowledge(record: &Record, time_ns: u64, (ack, sacked): (u32, &[[u32; 2]])) {
        let frame = packets::acknowledgement(ack, &sack::tests::option(sacked));
        let segments = Packet::new(&frame).unwrap().split();
        segments.for_each(|one| Part::Acknowledgements(record.clone()).goes(time_ns, &one));
    }

    fn begun() -> Record {
        let record = Record::default();
        send(&record, 0, &data(1448));
        assert!(record.so_far().of(PORTS).is_empty(), "nobody asked");
        record.begin();
        record
    }

    fn course(record: &Record) -> Vec<(u64, u32)> {
        record.so_far().of(PORTS).iter().map(|flight| (flight.time_ns, flight.bytes)).collect()
    }

    #[test]
    fn what_is_sent_is_on_its_way_until_it_is_acknowledged() {
        let record = begun();
        send(&record, 1, &data(2896));
        assert_eq!(course(&record), [(1, 1448), (1, 2896)]);
        acknowledge(&record, 5, (0xffff_f000 + 1448, &[]));
        // Sent again, acknowledged again, read late: nothing new.
        send(&record, 6, &data(2896));
        acknowledge(&record, 7, (0xffff_f000, &[]));
        acknowledge(&record, 4, (0xffff_f000 + 2896, &[]));
        assert_eq!(course(&record)[2..], [(5, 1448), (5, 0)]);
        assert!(record.so_far().of([1, 2]).is_empty());
    }

    #[test]
    fn what_has_arrived_beyond_a_gap_is_not_on_its_way() {
        let record = begun();
        // Across the end of the numbers.
        send(&record, 1, &data(14_480));
        let at = |segment: u32| 0xffff_f000_u32.wrapping_add(segment * 1448);
        acknowledge(&record, 2, (at(1), &[[at(2), at(4)], [at(6), at(7)]]));
        assert_eq!(course(&record).last(), Some(&(2, 6 * 1448)));
        // What arrived twice (RFC 2883) is below what is acknowledged.
        acknowledge(&record, 3, (at(8), &[[at(2), at(3)]]));
        assert_eq!(course(&record).last(), Some(&(3, 2 * 1448)));
    }
}
