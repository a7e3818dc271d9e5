//! A web server on the loopback answers as a test has it, well or badly.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Tells what becomes of a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The status line's end, the type, and the body.
    Whole(&'static str, &'static str, String),
    /// Sends this as it is, then closes the connection.
    Raw(Vec<u8>),
    /// A body of so many bytes.
    Large(usize),
    /// A body without end, a byte at a time.
    Drip,
}

impl Answer {
    #[must_use]
    pub fn json(body: impl Into<String>) -> Self {
        Self::Whole("200 OK", "application/json", body.into())
    }

    #[must_use]
    pub fn text(body: impl Into<String>) -> Self {
        Self::Whole("200 OK", "text/plain; version=0.0.4", body.into())
    }
}

/// The server; it ends when dropped.
pub struct Answers {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    /// Answers each request, told by its path and query, in a thread of its own.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> io::Result<Self> {
        Self::start_by(move |target, _| answer(target))
    }

    /// Answers so those who bring a bearer token (RFC 6750), and others with 401.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn start_for(
        token: &str,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let wanted = format!("authorization: bearer {token}").to_lowercase();
        Self::start_by(move |target, headers| {
            if headers.iter().any(|header| header.to_lowercase() == wanted) {
                answer(target)
            } else {
                Answer::Whole("401 Unauthorized", "text/plain", String::new())
            }
        })
    }

    fn start_by(
        answer: impl Fn(&str, &[String]) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (over, answer) = (Arc::clone(&ended), Arc::new(answer));
        let thread = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (answer, over) = (Arc::clone(&answer), Arc::clone(&over));
                thread::spawn(move || {
                    // Whoever asks may go away in the midst of it.
                    let _ = serve(&stream, answer.as_ref(), &over);
                });
            }
        });
        Ok(Self { address, ended, thread: Some(thread) })
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    mut stream: &TcpStream,
    answer: &dyn Fn(&str, &[String]) -> Answer,
    over: &AtomicBool,
) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut headers = Vec::new();
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        headers.push(line);
    }
    match answer(request.split(' ').nth(1).unwrap_or_default(), &headers) {
        Answer::Whole(status, kind, body) => {
            let bytes = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {bytes}\r\n\
                 connection: close\r\n\r\n{body}"
            )
        }
        Answer::Raw(bytes) => stream.write_all(&bytes),
        Answer::Large(bytes) => {
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n")?;
            let block = [b' '; 1 << 16];
            (0..bytes / block.len()).try_for_each(|_| stream.write_all(&block))
        }
        Answer::Drip => {
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n")?;
            while !over.load(Ordering::Relaxed) {
                stream.write_all(b" ")?;
                thread::sleep(Duration::from_millis(100));
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::get;

    #[test]
    fn it_answers_by_path_until_it_is_dropped() {
        let answers = Answers::start(|path| Answer::json(format!("\"{path}\""))).unwrap();
        let port = answers.address().port();
        assert_eq!(get(port, "/a?b").unwrap(), "\"/a?b\"");
        drop(answers);
        assert!(get(port, "/").is_err());
    }
}
