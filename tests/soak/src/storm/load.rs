//! Connections at full rate: short ones to each target, and few that last. Each byte is compared at
//! both ends, and what is carried is counted.

use std::{
    io::{self, Read as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Result;
use wad_testbed::{
    mutex::locked,
    netns::Handle,
    random::Random,
    tcp::{self, Connection, at},
    veth::Wire,
};

use super::{
    data::{Data, Request},
    failures::Failures,
    ground::{LONG, PORT, TARGETS},
    tally::{Counted, Tally},
};

const CLIENTS: u64 = 4;
/// More than there are clients: none waits to be accepted.
const SERVERS: usize = 6;
const LASTING: usize = 2;
/// A connection that gets nothing for so long has stalled.
const PATIENCE: Duration = Duration::from_secs(20);
/// Short objects have as much at most, and one of so many is a long one.
const SHORT_BYTES: u64 = 64 * 1024;
const LONG_BYTES: u64 = 2 * 1024 * 1024;
const ONE_IS_LONG_OF: u64 = 50;

/// All threads share this.
#[derive(Default)]
struct Shared {
    /// By target, what clients have counted.
    clients: [Tally; TARGETS.len()],
    /// The servers' counts of connections over IPv4.
    servers: Tally,
    lasting_bytes: AtomicU64,
    /// Whoever makes a connection has this to read, until the connection is over.
    gate: RwLock<()>,
    stop: AtomicBool,
    failures: Failures,
}

impl Shared {
    fn failed(&self, what: &str, error: &io::Error) {
        self.failures.add(&format!("{what}: {error}"));
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The load, until it is ended or dropped.
pub struct Load {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    listener: SocketAddr,
    near: Arc<Handle>,
}

/// The load has done so much.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub connections: u64,
    pub bytes: u64,
}

impl Load {
    pub fn start(wire: &Wire, seed: u64) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        // Both families come to it.
        let listener = tcp::listen(wire.b(), at("::", PORT))?;
        for _ in 0..SERVERS {
            let (shared, listener) = (Arc::clone(&shared), listener.try_clone()?);
            threads.push(thread::spawn(move || serve(&shared, &listener)));
        }
        for _ in 0..LASTING {
            let connection = Connection::open(wire.a(), wire.b(), at(LONG.1, LONG.2))?;
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || last(&shared, &connection)));
        }
        let near = Arc::new(wire.a().handle()?);
        let mut random = Random::new(seed);
        for _ in 0..CLIENTS {
            let (shared, near, seed) = (Arc::clone(&shared), Arc::clone(&near), random.next());
            threads.push(thread::spawn(move || {
                if near.enter().is_ok() {
                    ask(&shared, Random::new(seed));
                }
            }));
        }
        Ok(Self {
            shared,
            threads: Mutex::new(threads),
            listener: at(TARGETS[0].address, PORT),
            near,
        })
    }

    /// Has no short connection go on while something is done.
    pub fn paused<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let _all = self.shared.gate.write().expect("nobody panics with it");
        meanwhile()
    }

    /// Returns the counts of all paths, by name: of clients, and of servers.
    pub fn counted(&self) -> Vec<(&'static str, Counted)> {
        let named = TARGETS.iter().zip(&self.shared.clients);
        let of_clients = named.filter_map(|(target, tally)| Some((target.name?, tally.now())));
        of_clients.chain([(super::ground::ACCEPTED, self.shared.servers.now())]).collect()
    }

    pub fn done(&self) -> Done {
        let all = self.shared.clients.iter().map(Tally::now);
        let (connections, bytes) = all.fold((0, 0), |(connections, bytes), counted| {
            let carried = counted.sent_bytes + counted.received_bytes;
            (connections + counted.connections, bytes + carried)
        });
        let lasting = self.shared.lasting_bytes.load(Ordering::Relaxed);
        Done { connections, bytes: bytes + lasting }
    }

    /// Ends it; returns what went wrong.
    pub fn end(&self) -> Result<Vec<String>> {
        self.stop();
        Ok(self.shared.failures.take())
    }

    fn stop(&self) {
        // Servers that see it answer nobody any more: no connection is to be on its way then.
        self.paused(|| self.shared.stop.store(true, Ordering::Relaxed));
        let threads = std::mem::take(&mut *locked(&self.threads));
        let (near, listener) = (Arc::clone(&self.near), self.listener);
        let waking = thread::spawn(move || {
            if near.enter().is_ok() {
                // Each wakes one up that still waits.
                let wake = |_| TcpStream::connect_timeout(&listener, PATIENCE);
                drop((0..SERVERS).map(wake).collect::<Vec<_>>());
            }
        });
        let _ = waking.join();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if !locked(&self.threads).is_empty() {
            self.stop();
        }
    }
}

fn patient(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// Is a client: a connection after the other.
fn ask(shared: &Shared, mut random: Random) {
    loop {
        let gate = shared.gate.read().expect("nobody panics with it");
        if shared.is_over() {
            return;
        }
        let which = random.up_to(TARGETS.len() as u64 - 1) as usize;
        let most = if random.up_to(ONE_IS_LONG_OF - 1) == 0 { LONG_BYTES } else { SHORT_BYTES };
        let mut data = |most| Data { place: random.next(), bytes: random.up_to(most) };
        let request = Request { up: data(most / 16), down: data(most) };
        let to = at(TARGETS[which].address, PORT);
        if let Err(error) = once(&shared.clients[which], to, request) {
            shared.failed(&format!("a connection to {to}"), &error);
        }
        drop(gate);
    }
}

fn once(tally: &Tally, to: SocketAddr, request: Request) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    tally.connection();
    patient(&stream)?;
    request.send(&stream)?;
    request.up.send(&stream)?;
    request.down.receive(&stream)?;
    let more = stream.read(&mut [0])?;
    tally.bytes(Request::BYTES as u64 + request.up.bytes, request.down.bytes);
    if more == 0 { Ok(()) } else { Err(io::Error::other("more arrives than was asked for")) }
}

/// Is a server: a connection after the other.
fn serve(shared: &Shared, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.is_over() {
            return;
        }
        let answered = accepted.and_then(|(stream, _)| answer(shared, &stream));
        if let Err(error) = answered {
            shared.failed("an accepted connection", &error);
        }
    }
}

fn answer(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    let is_v4 = match stream.local_addr()?.ip() {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    if is_v4 {
        shared.servers.connection();
    }
    patient(stream)?;
    let request = Request::receive(stream)?;
    request.up.receive(stream)?;
    request.down.send(stream)?;
    if is_v4 {
        let received = Request::BYTES as u64 + request.up.bytes;
        shared.servers.bytes(request.down.bytes, received);
    }
    Ok(())
}

/// Is both ends of a connection that lasts.
fn last(shared: &Shared, connection: &Connection) {
    const PIECE: Data = Data { place: 7, bytes: 1 << 20 };
    let Connection { near, far } = connection;
    let begun = Instant::now();
    while !shared.is_over() {
        let there = thread::scope(|scope| {
            let sending = scope.spawn(|| PIECE.send(near));
            PIECE.receive(far).and_then(|()| sending.join().expect("it does not panic"))
        });
        if let Err(error) = there {
            let after = begun.elapsed().as_secs();
            shared.failed(&format!("a connection that had lasted for {after} s"), &error);
            return;
        }
        shared.lasting_bytes.fetch_add(PIECE.bytes, Ordering::Relaxed);
        // It is to last, not to take all that there is.
        thread::sleep(Duration::from_millis(100));
    }
}
