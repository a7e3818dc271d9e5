//! An application in a pod, which knows nothing of `wad`: connections one after the other, and
//! beside them one that goes on. It tells what the connections got, and checks each byte.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use nix::sys::socket::{getsockopt, sockopt};
use serde::{Deserialize, Serialize};

/// A line is told so often; the last one counts.
const BEAT: Duration = Duration::from_millis(200);
/// The transfer is not to take all of a processor.
const PAUSE: Duration = Duration::from_millis(20);
const BLOCK_BYTES: usize = 1 << 20;

/// Says what the application has seen until now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// How many connections got which congestion control, and which argument of SO_SNDBUF.
    pub connections: BTreeMap<String, u64>,
    /// The port of the connection that goes on, at this end.
    pub transfer_port: u16,
    /// Blocks that came back on it as they were sent.
    pub blocks: u64,
}

/// Names what a connection got.
pub fn kind(congestion: &str, sndbuf_bytes: usize) -> String {
    format!("{congestion} {sndbuf_bytes}")
}

/// Sends back what comes, to each who connects.
pub fn echo(at: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(at)?;
    loop {
        let (stream, _) = listener.accept()?;
        thread::spawn(move || io::copy(&mut &stream, &mut &stream));
    }
}

/// Connects to an [`echo`] until it is killed, and prints a line on what it has seen now and
/// then.
pub fn connect(to: SocketAddr) -> Result<()> {
    let blocks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&blocks);
    let transfer = TcpStream::connect(to)?;
    let transfer_port = transfer.local_addr()?.port();
    let transferring = thread::spawn(move || exchange(&transfer, &counted));
    let mut seen = Seen { transfer_port, ..Seen::default() };
    let mut told = Instant::now();
    while !transferring.is_finished() {
        let stream = TcpStream::connect(to)?;
        let congestion = getsockopt(&stream, sockopt::TcpCongestion)?;
        // The kernel doubles what is asked for.
        let sndbuf_bytes = getsockopt(&stream, sockopt::SndBuf)? / 2;
        *seen.connections.entry(kind(&congestion.to_string_lossy(), sndbuf_bytes)).or_default() +=
            1;
        if told.elapsed() >= BEAT {
            told = Instant::now();
            seen.blocks = blocks.load(Ordering::Relaxed);
            println!("{}", serde_json::to_string(&seen)?);
        }
        thread::sleep(Duration::from_millis(1));
    }
    transferring.join().expect("it does not panic")
}

/// Sends block after block, and holds what comes back against it.
fn exchange(stream: &TcpStream, blocks: &AtomicU64) -> Result<()> {
    let mut back = vec![0; BLOCK_BYTES];
    for number in 0_u64.. {
        let block: Vec<u8> =
            (0..BLOCK_BYTES as u64).map(|at| (at * 31 + (at >> 8) + number) as u8).collect();
        thread::scope(|scope| -> Result<()> {
            let sending = scope.spawn(|| (&mut &*stream).write_all(&block));
            (&mut &*stream).read_exact(&mut back)?;
            Ok(sending.join().expect("it does not panic")?)
        })?;
        ensure!(back == block, "block {number} came back as another");
        blocks.store(number + 1, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
    Ok(())
}
