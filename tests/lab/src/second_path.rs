//! A second path runs beside the transfer, between network namespaces of its own, with
//! connections whose receivers never read. They are to lose nothing, however short memory
//! gets: the kernel drops what has arrived when it finds no room for it, and the sender
//! has to send it again.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use wad_testbed::{
    emulated::wan::{SECOND_ADDRESSES_V4, Wan},
    settings,
    ss::{self, Flow},
};

use crate::{
    algorithm::is_own,
    cli,
    counters::TcpCounters,
    lab::LabError,
    scenario::Variant,
    transfer::{Bed, Peer},
    unread::Unread,
};

const PORT: u16 = 5001;

/// The second path, up, with its connections. The processes end when dropped, and then
/// the path.
pub struct SecondPath {
    _filler: Peer,
    _holder: Peer,
    wan: Wan,
    connections: u32,
}

impl SecondPath {
    /// Starts the connections that a variant has there, spread over a time.
    ///
    /// # Errors
    /// When the path, or an end of it, cannot be started.
    pub fn start(bed: &Bed<'_>, variant: &Variant, over: Duration) -> Result<Self, LabError> {
        let wan = Wan::start_second(&variant.path)?;
        settings::apply(&wan)?;
        settings::change(&wan, &variant.sysctls)?;
        let address: IpAddr = SECOND_ADDRESSES_V4[1].parse().expect("a constant IPv4 address");
        let to = SocketAddr::new(address, PORT);
        let program = &bed.lab.own;
        let mut holder = bed.start("holder", cli::holder(program, to), wan.b())?;
        holder.wait_listening(wan.b(), PORT)?;
        let command = cli::filler(program, to, variant.unread, over);
        let filler = bed.start("filler", command, wan.a())?;
        Ok(Self { _filler: filler, _holder: holder, wan, connections: variant.unread })
    }

    /// Ends the connections, and returns what became of them.
    ///
    /// # Errors
    /// When they, or the kernel's counters, cannot be read.
    pub fn finish(self) -> Result<Unread, LabError> {
        let [near, far] = [(self.wan.a(), "dport"), (self.wan.b(), "sport")]
            .map(|(netns, name)| netns.run(|| ss::flows(&format!("{name} = :{PORT}"))));
        let (near, far) = (near??, far??);
        let [sent, received] =
            [self.wan.a(), self.wan.b()].map(|netns| netns.run(TcpCounters::read));
        let sent = sent?.map_err(LabError::Counters)?;
        let received = received?.map_err(LabError::Counters)?;
        let is_filled = |flow: &&Flow| flow.receive_queue_bytes > 0;
        let is_tuned = |flow: &&Flow| is_own(&flow.congestion);
        Ok(Unread {
            wanted: self.connections.into(),
            connections: far.iter().filter(is_filled).count() as u64,
            tuned_ends: near.iter().chain(&far).filter(is_tuned).count() as u64,
            bytes: far.iter().map(|flow| flow.receive_queue_bytes).sum(),
            retransmits: sent.retransmits(),
            drops: received.drops(),
        })
    }
}
