//! A web proxy on the loopback makes tunnels (`CONNECT`), and says whereto.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crate::mutex::locked;

/// The proxy; it ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    heads: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// # Errors
    /// When there is no free port.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (ended, heads) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (over, kept) = (Arc::clone(&ended), Arc::clone(&heads));
        let thread = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let kept = Arc::clone(&kept);
                // Either end may go away.
                thread::spawn(move || drop(serve(stream, &kept)));
            }
        });
        Ok(Self { address, ended, heads, thread: Some(thread) })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what the proxy was asked, each with its headers.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        locked(&self.heads).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(mut client: TcpStream, heads: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let mut head = lines.next().transpose()?.unwrap_or_default();
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    let target = target.map(str::to_owned);
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        head = head + "\n" + &line;
    }
    locked(heads).push(head);
    let Some(target) = target else {
        return client.write_all(b"HTTP/1.1 405 Tunnels Only\r\ncontent-length: 0\r\n\r\n");
    };
    let server = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || pass_on(from_client, to_server));
    pass_on(server, client)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    io::copy(&mut from, &mut to)?;
    to.shutdown(Shutdown::Write)
}
