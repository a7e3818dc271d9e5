//! Looks up names as this host does (`/etc/hosts`, DNS and whatever else it is told to
//! use).
//!
//! The C library can't be stopped once it looks, and takes half a minute where no name
//! server answers: a bounded number of look-ups is under way, whoever has given them up
//! since, and one whose turn has not come is given up for good.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Look-ups under way at a time.
pub const AT_ONCE: usize = 4;

/// The turns of the whole process.
pub static TURNS: Turns = Turns::new();

/// Turns bound the look-ups that are under way.
#[derive(Debug)]
pub struct Turns(Semaphore);

impl Turns {
    #[expect(clippy::new_without_default, reason = "a static can't be a default")]
    pub const fn new() -> Self {
        Self(Semaphore::const_new(AT_ONCE))
    }

    /// Waits for a turn.
    pub async fn take(&'static self) -> Turn {
        Turn { _permit: self.0.acquire().await.expect("nobody closes it") }
    }
}

/// A turn to look up a name.
#[derive(Debug)]
pub struct Turn {
    _permit: SemaphorePermit<'static>,
}

impl Turn {
    /// Looks up a name by a function that may block, and keeps the turn until that is
    /// over. It must be called within a tokio runtime.
    pub async fn look_up<T: Send + 'static>(
        self,
        name: String,
        by: impl FnOnce(&str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let looking = tokio::task::spawn_blocking(move || {
            let _turn = self;
            by(&name)
        });
        looking.await?
    }
}

/// Looks up the addresses of a host by its name, and waits for them.
pub fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

/// Returns the addresses of a host, which may be an address itself, with a port.
pub async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let mut addresses = TURNS.take().await.look_up(host.to_owned(), look_up).await?;
    for address in &mut addresses {
        address.set_port(port);
    }
    Ok(addresses)
}
