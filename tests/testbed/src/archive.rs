//! An archive of events is a web server on the loopback that takes JSON lines by POST,
//! is away for as long as a test wants, and comes back at the same address.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use serde_json::Value;

use crate::mutex::locked;

/// Holds what an archive has taken, which outlives it.
pub type Taken = Arc<Mutex<Vec<Value>>>;

/// The end of the status line that says that all was taken.
const TAKES: &str = "204 No Content";

/// The archive's server; it is away when this is dropped.
pub struct Archive {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Archive {
    /// Listens. Of so many requests each the first is answered, the others are refused for
    /// now.
    ///
    /// # Errors
    /// When somebody has the address.
    pub fn open(address: SocketAddr, taken: &Taken, one_in: usize) -> io::Result<Self> {
        Self::listen(address, taken, move |count| match count % one_in {
            0 => TAKES,
            _ => "503 Service Unavailable",
        })
    }

    /// Listens. The first requests, so many, are refused for good, the others are answered.
    ///
    /// # Errors
    /// When somebody has the address.
    pub fn strict(address: SocketAddr, taken: &Taken, refused: usize) -> io::Result<Self> {
        Self::listen(address, taken, move |count| match count < refused {
            true => "422 Unprocessable Content\r\nretry-after: 0",
            false => TAKES,
        })
    }

    fn listen(
        address: SocketAddr,
        taken: &Taken,
        status: impl Fn(usize) -> &'static str + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let ended = Arc::new(AtomicBool::new(false));
        let (over, taken) = (Arc::clone(&ended), Arc::clone(taken));
        let thread = thread::spawn(move || {
            for (count, stream) in listener.incoming().flatten().enumerate() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // Whoever asks may go away in the midst of it.
                let _ = serve(&stream, &taken, status(count));
            }
        });
        Ok(Self { address, ended, thread: Some(thread) })
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(mut stream: &TcpStream, taken: &Taken, status: &str) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut body_bytes = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length: ") {
            body_bytes = bytes.parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body)?;
    if status == TAKES {
        let lines: Vec<Value> = body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()?;
        locked(taken).extend(lines);
    }
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}
