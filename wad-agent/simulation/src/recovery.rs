//! Fast recovery: the window follows its threshold as what was on its way is delivered, by
//! proportional rate reduction (RFC 6937, `tcp_cwnd_reduction()`).

use crate::tcp::Tcp;

#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// It is over when all data before this have been delivered (`high_seq`).
    pub until_data: u64,
    delivered: u64,
    pub sent: u64,
}

impl Recovery {
    pub const fn begin(until_data: u64) -> Self {
        Self { until_data, delivered: 0, sent: 0 }
    }

    /// An ACK told of so many delivered. `fills` tells that it filled a hole, and that nothing
    /// more was found lost.
    pub fn reduce(&mut self, tcp: &mut Tcp, acked_segments: u32, fills: bool) {
        if acked_segments == 0 || tcp.prior_cwnd_segments == 0 {
            return;
        }
        let acked = u64::from(acked_segments);
        self.delivered += acked;
        let threshold = u64::from(tcp.ssthresh_segments);
        let in_flight = u64::from(tcp.in_flight_segments);
        let send = match threshold.checked_sub(in_flight) {
            None => {
                let share = threshold * self.delivered;
                share.div_ceil(tcp.prior_cwnd_segments.into()).saturating_sub(self.sent)
            }
            Some(below) => {
                let send = self.delivered.saturating_sub(self.sent).max(acked);
                (send + u64::from(fills)).min(below)
            }
        };
        // The first segment that was lost is sent again at once.
        let send = send.max(u64::from(self.sent == 0));
        tcp.cwnd_segments = u32::try_from(in_flight + send).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_delivered_is_sent_and_no_more_than_the_threshold_is_on_its_way() {
        let mut tcp = Tcp {
            cwnd_segments: 100,
            prior_cwnd_segments: 100,
            ssthresh_segments: 50,
            in_flight_segments: 100,
            ..Tcp::begin(1448, 1)
        };
        let mut recovery = Recovery::begin(0);
        let mut sent = 0;
        for _ in 0..100 {
            tcp.in_flight_segments -= 1;
            recovery.reduce(&mut tcp, 1, false);
            let send = tcp.cwnd_segments - tcp.in_flight_segments;
            recovery.sent += u64::from(send);
            (sent, tcp.in_flight_segments) = (sent + send, tcp.in_flight_segments + send);
        }
        assert_eq!((sent, tcp.in_flight_segments, tcp.cwnd_segments), (50, 50, 50));
    }
}
