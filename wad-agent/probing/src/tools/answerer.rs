//! The answering end: it sends echoes back over UDP and TCP, and takes in what a transfer
//! sends, for those who may and within bounds.

mod sessions;
mod udp;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use nix::sys::socket::{setsockopt, sockopt::ReuseAddr};
use tokio::net::TcpSocket;

use self::{sessions::Sessions, udp::Udp};
use super::socket::sign;

/// For whom, and how much.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Others hear nothing over UDP, and why over TCP.
    pub allowed: Vec<IpNet>,
    /// Transfers at a time; a further one is refused.
    pub transfers: usize,
    /// A transfer may send so much.
    pub bytes: u64,
    /// A transfer may take so long, its echoes included.
    pub time: Duration,
}

impl Terms {
    fn allow(&self, from: SocketAddr) -> bool {
        let address = from.ip().to_canonical();
        self.allowed.iter().any(|prefix| prefix.contains(&address))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AnswererError {
    #[error("cannot answer at {address} (answer)")]
    Bind { address: SocketAddr, source: io::Error },
    #[error("cannot answer at {address} any more")]
    Broken { address: SocketAddr, source: io::Error },
}

/// An answerer has the same port over UDP and TCP.
pub struct Answerer {
    address: SocketAddr,
    udp: Udp,
    sessions: Sessions,
}

/// Connections that nobody has accepted yet.
const BACKLOG: u32 = 64;

impl Answerer {
    /// Binds it; port 0 is any that is free.
    ///
    /// # Errors
    /// When the address cannot be had. It takes a runtime of tokio with input and output.
    pub fn bind(address: SocketAddr, terms: Terms) -> Result<Self, AnswererError> {
        let failed = |source| AnswererError::Bind { address, source };
        let terms = Arc::new(terms);
        let bind = || {
            let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
            setsockopt(&socket, ReuseAddr, &true)?;
            // Connections that it accepts have it from their listener.
            sign(&socket)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let address = listener.local_addr()?;
            let udp = Udp::bind(address, Arc::clone(&terms))?;
            Ok(Self { address, udp, sessions: Sessions::new(listener, terms) })
        };
        bind().map_err(failed)
    }

    /// Returns the address that it has.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until nobody waits for it any more; then all that it has begun is over.
    ///
    /// # Errors
    /// When a socket breaks.
    pub async fn serve(self) -> Result<(), AnswererError> {
        let Self { address, udp, sessions } = self;
        let served = tokio::select! {
            served = udp.serve() => served,
            served = sessions.serve() => served,
        };
        served.map_err(|source| AnswererError::Broken { address, source })
    }
}

#[cfg(test)]
mod tests;
