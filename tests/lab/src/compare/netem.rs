//! The kernel's emulated network (sch_netem) on a device, set by rtnetlink(7):
//! Debian 12's `tc` knows no seed, which netem has since Linux 6.6. An older one
//! ignores it.

use std::{io, time::Duration};

use anyhow::{Context as _, Result, ensure};
use netlink_packet_core::{
    DefaultNla, Emitable as _, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    RouteNetlinkMessage,
    tc::{TcAttribute, TcHandle, TcMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use wad_testbed::netns::Netns;

/// Tells what netem does to the packets that a device sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Netem {
    pub delay: Duration,
    /// Probability that a packet is lost, each by itself.
    pub loss: f64,
    /// The same seed loses the same packets, by number from this change on.
    pub seed: u64,
}

impl Netem {
    /// Puts netem before a device, or changes what is there; packets that it holds
    /// stay.
    ///
    /// # Errors
    /// Without root, or netem.
    pub fn apply(&self, netns: &Netns, device: &str) -> Result<()> {
        netns
            .run(|| request(self.message(device)?))?
            .with_context(|| format!("cannot set netem on {device} of {}", netns.name()))
    }

    fn message(&self, device: &str) -> Result<TcMessage> {
        /// These numbers are from include/uapi/linux/rtnetlink.h.
        const TCA_OPTIONS: u16 = 2;
        let index = nix::net::if_::if_nametoindex(device)?;
        let mut message = TcMessage::with_index(index.try_into()?);
        message.header.parent = TcHandle::ROOT;
        message.attributes = vec![
            TcAttribute::Kind("netem".to_owned()),
            TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, self.options())),
        ];
        Ok(message)
    }

    /// Returns the `struct tc_netem_qopt` of include/uapi/linux/pkt_sched.h, and the
    /// attributes after it.
    fn options(&self) -> Vec<u8> {
        const TCA_NETEM_LATENCY64: u16 = 10;
        const TCA_NETEM_PRNG_SEED: u16 = 14;
        /// The queue holds this many packets: more than are ever under way.
        const LIMIT: u32 = 1_000_000;
        let loss = (self.loss * f64::from(u32::MAX)).round() as u32;
        // Latency in ticks (replaced below), limit, loss, gap, duplicate, jitter.
        let fixed = [0, LIMIT, loss, 0, 0, 0];
        let mut bytes: Vec<u8> = fixed.into_iter().flat_map(u32::to_ne_bytes).collect();
        let delay_ns = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX);
        for (kind, value) in [(TCA_NETEM_LATENCY64, delay_ns), (TCA_NETEM_PRNG_SEED, self.seed)] {
            let attribute = DefaultNla::new(kind, value.to_ne_bytes().to_vec());
            let begin = bytes.len();
            bytes.resize(begin + attribute.buffer_len(), 0);
            attribute.emit(&mut bytes[begin..]);
        }
        bytes
    }
}

/// Makes a request in the network namespace of this thread.
fn request(message: TcMessage) -> Result<()> {
    const MOST_BYTES: usize = 4096;
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);

    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let mut answer = Vec::with_capacity(MOST_BYTES);
    socket.recv(&mut answer, 0)?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)?;
    let NetlinkPayload::Error(error) = answer.payload else {
        return Err(io::Error::other("the kernel's answer is not one").into());
    };
    ensure!(error.code.is_none(), error.to_io());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_as_the_kernel_reads_them() {
        let netem = Netem { delay: Duration::from_millis(20), loss: 0.5, seed: 0x0102_0304 };
        let bytes = netem.options();
        assert_eq!(bytes.len(), 24 + 12 + 12);
        assert_eq!(bytes[8..12], 0x8000_0000_u32.to_ne_bytes());
        assert_eq!(bytes[24..28], [12_u16, 10].map(u16::to_ne_bytes).concat());
        assert_eq!(bytes[28..36], 20_000_000_u64.to_ne_bytes());
        assert_eq!(bytes[36..40], [12_u16, 14].map(u16::to_ne_bytes).concat());
        assert_eq!(bytes[40..48], 0x0102_0304_u64.to_ne_bytes());
    }
}
