//! Looks up names as this host does (`/etc/hosts`, DNS and whatever else it is told to
//! use).
//!
//! The C library can't be stopped once it looks, and takes half a minute where no name
//! server answers: a bounded number of look-ups is under way, whoever has given them up
//! since, and one whose turn has not come is given up for good.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    thread,
};

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use wad_toolbox::shortage;

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
    /// Looks up a name by a function that may block, on a thread of its own, and keeps the
    /// turn until that is over.
    pub async fn look_up<T: Send + 'static>(
        self,
        name: String,
        by: impl FnOnce(&str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, looked) = oneshot::channel();
        let look = move || {
            let _turn = self;
            // Whoever asked may have given up.
            let _ = done.send(by(&name));
        };
        let thread = thread::Builder::new().name("look-up".to_owned()).spawn(look);
        thread.map_err(shortage::of_threads)?;
        looked.await.map_err(io::Error::other)?
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
