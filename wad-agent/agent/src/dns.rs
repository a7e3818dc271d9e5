//! Asks this host's name servers for the addresses of a name, and how long these hold, which
//! the C library does not tell. `/etc/hosts` goes first, as it does there.

mod hosts;
mod message;

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    task,
    time::timeout,
};
use wad_toolbox::chance::chance;

use self::message::{Family, Question, Reply};

#[cfg(feature = "fuzz")]
pub use self::message::fuzz;

/// Time for an answer of a server, and rounds through all of them, as resolv.conf(5) has
/// for the C library; but that waits for 5 seconds.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;

/// Bytes of an answer by UDP, without EDNS (RFC 1035, section 4.2.1): a longer one is asked
/// for by TCP. Some servers send more all the same.
const UDP_BYTES: usize = 4096;

/// How long what `/etc/hosts` has holds, and a name that has addresses of one family only.
const HOSTS_HOLD: Duration = Duration::from_secs(60);

/// Says why the addresses of a name are not known.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    #[error("there is no name {name}")]
    NoName { name: String },
    #[error("{name} has no address")]
    NoAddress { name: String },
    #[error("the name server {server} answers {name} with {code}")]
    Refused { server: SocketAddr, name: String, code: String },
    #[error("the name server {server} does not answer")]
    Silent { server: SocketAddr, source: io::Error },
    #[error("the name server {server} answers what is no answer")]
    Malformed { server: SocketAddr, source: simple_dns::SimpleDnsError },
}

/// The addresses of a name, and how long they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub addresses: Vec<IpAddr>,
    pub holds: Duration,
}

/// Looks up the IPv4 and IPv6 addresses of a name. It takes a few seconds for each name
/// server that is silent.
pub async fn look_up(name: &str) -> Result<Answer, DnsError> {
    // A file may be on a disk that is slow.
    let read = task::spawn_blocking(|| {
        ["/etc/hosts", "/etc/resolv.conf"].map(|file| fs::read(file).unwrap_or_default())
    });
    let [hosts, resolv_conf] =
        read.await.unwrap_or_default().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let addresses = hosts::addresses(&hosts, name);
    if !addresses.is_empty() {
        return Ok(Answer { addresses, holds: HOSTS_HOLD });
    }
    ask_all(&hosts::servers(&resolv_conf), name).await
}

/// One family is enough: a server may be ill at ease with the other.
async fn ask_all(servers: &[SocketAddr], name: &str) -> Result<Answer, DnsError> {
    let (v4, v6) =
        tokio::join!(ask_for(servers, name, Family::V4), ask_for(servers, name, Family::V6));
    let (answers, errors): (Vec<_>, Vec<_>) = [v4, v6].into_iter().partition(Result::is_ok);
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let addresses: Vec<_> =
        answers.iter().flat_map(|answer| answer.addresses.iter().copied()).collect();
    if addresses.is_empty() {
        let error = errors.into_iter().find_map(Result::err);
        return Err(error.unwrap_or_else(|| DnsError::NoAddress { name: name.to_owned() }));
    }
    let holds = answers.iter().map(|answer| answer.holds).min().unwrap_or(HOSTS_HOLD);
    Ok(Answer { addresses, holds })
}

/// Asks one server after the other, until one knows.
async fn ask_for(servers: &[SocketAddr], name: &str, family: Family) -> Result<Answer, DnsError> {
    let mut failed = None;
    for server in (0..ROUNDS).flat_map(|_| servers) {
        match ask(*server, name, family).await {
            Ok(answer) => return Ok(answer),
            // It is the same everywhere.
            Err(error @ DnsError::NoName { .. }) => return Err(error),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| DnsError::NoAddress { name: name.to_owned() }))
}

async fn ask(server: SocketAddr, name: &str, family: Family) -> Result<Answer, DnsError> {
    let silent = |source| DnsError::Silent { server, source };
    let late = |_| silent(io::ErrorKind::TimedOut.into());
    // Who guesses an answer has to guess the port, too.
    let id = (chance() * f64::from(u16::MAX)) as u16;
    let question = Question { id, name, family };
    let reply = timeout(PATIENCE, by_udp(server, &question)).await.map_err(late)?;
    let reply = match reply.map_err(silent)? {
        Reply::Truncated => {
            let bytes = timeout(PATIENCE, by_tcp(server, &question)).await.map_err(late)?;
            let bytes = bytes.map_err(silent)?;
            question.read(&bytes).map_err(|source| DnsError::Malformed { server, source })?
        }
        reply => reply,
    };
    match reply {
        Reply::Addresses { addresses, holds } => {
            Ok(Answer { addresses, holds: holds.unwrap_or(HOSTS_HOLD) })
        }
        Reply::NoName => Err(DnsError::NoName { name: name.to_owned() }),
        Reply::Refused { code } => Err(DnsError::Refused { server, name: name.to_owned(), code }),
        Reply::Truncated | Reply::Other => Err(silent(io::ErrorKind::InvalidData.into())),
    }
}

/// Asks, and passes over what is no answer to the question: the right one may come.
async fn by_udp(server: SocketAddr, question: &Question<'_>) -> io::Result<Reply> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&question.bytes()).await?;
    let mut bytes = vec![0; UDP_BYTES];
    loop {
        let length = socket.recv(&mut bytes).await?;
        match question.read(&bytes[..length]) {
            Ok(Reply::Other) | Err(_) => {}
            Ok(reply) => return Ok(reply),
        }
    }
}

/// Each message has its length before it (RFC 1035, section 4.2.2).
async fn by_tcp(server: SocketAddr, question: &Question<'_>) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let bytes = question.bytes();
    // A name has 253 characters at most.
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[length.to_be_bytes().as_slice(), &bytes].concat()).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use simple_dns::{Packet, PacketFlag, RCODE, rdata::RData};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers by UDP that it is too long, and by TCP with an address.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = UdpSocket::bind(address).await.unwrap();
        tokio::spawn(async move {
            let mut bytes = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut bytes).await.unwrap();
                let mut reply = Packet::parse(&bytes[..length]).unwrap().into_reply();
                // One that was asked for by nobody comes first.
                let id = reply.id();
                reply.set_id(id.wrapping_add(1));
                socket.send_to(&reply.build_bytes_vec().unwrap(), from).await.unwrap();
                reply.set_id(id);
                reply.set_flags(PacketFlag::TRUNCATION);
                socket.send_to(b"no message", from).await.unwrap();
                socket.send_to(&reply.build_bytes_vec().unwrap(), from).await.unwrap();
            }
        });
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; stream.read_u16().await.unwrap().into()];
                stream.read_exact(&mut bytes).await.unwrap();
                let mut reply = Packet::parse(&bytes).unwrap().into_reply();
                let question = reply.questions[0].clone();
                if message::is_v4(&question) {
                    let rdata = RData::A(Ipv4Addr::new(192, 0, 2, 1).into());
                    reply.answers.push(message::record(question.qname.clone(), 90, rdata));
                } else {
                    *reply.rcode_mut() = RCODE::ServerFailure;
                }
                let bytes = reply.build_bytes_vec().unwrap();
                let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
                stream.write_all(&[length.as_slice(), &bytes].concat()).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn a_long_answer_comes_by_tcp_and_one_family_is_enough() {
        let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let answer = ask_all(&[closed, server().await], "dtn.example.org").await.unwrap();
        assert_eq!(answer.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(answer.holds, Duration::from_secs(90));
        let error = ask_all(&[closed], "dtn.example.org").await.unwrap_err();
        assert!(matches!(error, DnsError::Silent { .. }), "{error}");
    }
}
