//! Network namespaces as of containers, each with a flow of a path in it, and what no option
//! of a socket gives them.

use anyhow::Result;
use wad_testbed::{
    netns::Netns,
    sysctl,
    tcp::{Connection, at},
};

/// The flows' other end.
pub const REMOTE: &str = "127.0.0.2";
/// A path whose flows need all that there is, with `REMOTE` or others.
pub const KEYS: &str = "bandwidth = '100Mbit'\nrtt = '200ms'\nbuffers = 'autotune'\n\
                        reorder = 19\ndelayed_ack = false";
/// Only the host's own namespace tells the memory that TCP may take.
pub const LIMITS: &str = "[limits]\nmax_memory = '1GiB'\n";
pub const HOST: &str = "[host]\nroutes = true\ntransmit_queue_length = { lo = 5000 }\n";

const ROOM: &str = "net.ipv4.tcp_wmem";

/// A namespace with a connection in it.
pub struct Pod {
    pub netns: Netns,
    _connection: Connection,
}

impl Pod {
    pub fn start(port: u16) -> Result<Self> {
        let netns = Netns::create("pod")?;
        netns.ip(&["link", "set", "lo", "up"])?;
        netns.run(|| sysctl::set(ROOM, "4096 16384 500000"))??;
        let connection = Connection::open(&netns, &netns, at(REMOTE, port))?;
        Ok(Self { netns, _connection: connection })
    }

    /// Whether buffers have more room, and the queue another length; and whether routes
    /// have metrics.
    pub fn has(&self) -> Result<(bool, bool)> {
        let room = self.netns.run(|| sysctl::get(ROOM))??;
        let links = self.netns.ip(&["link", "show", "lo"])?;
        let set = [room == "4096 16384 6250000", links.contains("qlen 5000")];
        Ok((set == [true; 2], self.netns.ip(&["rule"])?.contains("32765:")))
    }
}

/// Returns how many have room and a queue, and how many metrics.
pub fn count(pods: &[Pod]) -> Result<(usize, usize)> {
    let all = pods.iter().map(Pod::has).collect::<Result<Vec<_>>>()?;
    let count = |has: fn(&(bool, bool)) -> bool| all.iter().filter(|pod| has(pod)).count();
    Ok((count(|pod| pod.0), count(|pod| pod.1)))
}
