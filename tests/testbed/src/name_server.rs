//! A name server on the loopback, whose answers change as a test has it.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread::{self, JoinHandle},
};

use simple_dns::{
    CLASS, Packet, QTYPE, RCODE, ResourceRecord, TYPE,
    rdata::{A, AAAA, RData},
};

use crate::mutex::locked;

/// The addresses of names, and their time to live in seconds.
type Names = HashMap<String, (Vec<IpAddr>, u32)>;

/// The server; it ends when dropped.
pub struct NameServer {
    address: SocketAddr,
    names: Arc<Mutex<Names>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Answers at port 53 of an address of the loopback that no other has.
    ///
    /// # Errors
    /// When there is none.
    pub fn start() -> io::Result<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        // Other processes' tests have others.
        let process = (std::process::id() % 200) as u8;
        let free = || {
            let last = NEXT.fetch_add(1, Ordering::Relaxed);
            UdpSocket::bind((Ipv4Addr::new(127, 53, process, last), 53))
        };
        let socket = (0..20).find_map(|_| free().ok()).ok_or(io::ErrorKind::AddrInUse)?;
        let address = socket.local_addr()?;
        let names = Arc::new(Mutex::new(Names::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (known, over) = (Arc::clone(&names), Arc::clone(&ended));
        let thread = thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(answer) = answer(&bytes[..length], &locked(&known)) {
                    // Whoever asks may have gone.
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Ok(Self { address, names, ended, thread: Some(thread) })
    }

    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address.ip()
    }

    /// Gives a name these addresses from now on.
    pub fn set(&self, name: &str, addresses: &[IpAddr], ttl_seconds: u32) {
        locked(&self.names).insert(name.to_owned(), (addresses.to_vec(), ttl_seconds));
    }

    /// Knows a name no more.
    pub fn forget(&self, name: &str) {
        locked(&self.names).remove(name);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes it up.
        let woken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let _ = woken.and_then(|socket| socket.send_to(&[0], self.address));
        self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the answer to a question; None where it is none.
fn answer(bytes: &[u8], names: &Names) -> Option<Vec<u8>> {
    let mut reply = Packet::parse(bytes).ok()?.into_reply();
    let question = reply.questions.first()?.clone();
    match names.get(&question.qname.to_string()) {
        None => *reply.rcode_mut() = RCODE::NameError,
        Some((addresses, ttl_seconds)) => {
            let wanted = addresses.iter().filter_map(|address| match (address, question.qtype) {
                (IpAddr::V4(v4), QTYPE::TYPE(TYPE::A)) => {
                    Some(RData::A(A { address: v4.to_bits() }))
                }
                (IpAddr::V6(v6), QTYPE::TYPE(TYPE::AAAA)) => {
                    Some(RData::AAAA(AAAA { address: v6.to_bits() }))
                }
                _ => None,
            });
            let record =
                |rdata| ResourceRecord::new(question.qname.clone(), CLASS::IN, *ttl_seconds, rdata);
            reply.answers = wanted.map(record).collect();
        }
    }
    reply.build_bytes_vec().ok()
}
