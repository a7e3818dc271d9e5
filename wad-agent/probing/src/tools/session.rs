//! A connection to an answerer: echoes one after the other, and then bytes.

use std::{
    io,
    net::SocketAddr,
    num::NonZeroU16,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use super::{
    Target, ToolError,
    message::{self, BYTES, Echo, Grant, Hello, Message, MessageError},
    socket,
    tcp_info::TcpInfo,
};

/// Headers of TCP with timestamps, with IPv4 and with IPv6.
const IPV4_BYTES: u64 = 52;
const IPV6_BYTES: u64 = 72;

/// A session is asked for this.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub echoes: u16,
    pub bytes: u64,
    pub time: Duration,
}

impl Asked {
    pub const fn echoes(count: NonZeroU16) -> Self {
        Self { echoes: count.get(), bytes: 0, time: Duration::MAX }
    }
}

pub struct Session {
    stream: TcpStream,
    to: Target,
    nonce: u64,
    pub grant: Grant,
}

impl Session {
    /// Makes the socket of one, which is a probe's.
    pub fn socket(to: &Target) -> Result<TcpSocket, ToolError> {
        let made = if to.address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() };
        let made = made.map_err(|source| ToolError::Socket { address: to.address, source })?;
        socket::prepare(&made, to)?;
        socket::sign(&made).map_err(|error| ToolError::Option {
            option: "TCP_USER_TIMEOUT",
            address: to.address,
            source: error.into(),
        })?;
        Ok(made)
    }

    /// Connects, and asks the answerer.
    pub async fn open(
        socket: TcpSocket,
        to: &Target,
        port: u16,
        asked: Asked,
    ) -> Result<Self, ToolError> {
        let address = to.address;
        let failed = |source| ToolError::Connect { address, port, source };
        let stream = socket.connect(SocketAddr::new(address, port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let nonce = message::nonce();
        let grant = Grant { bytes: 0, milliseconds: 0 };
        let mut session = Self { stream, to: to.clone(), nonce, grant };
        let Asked { echoes, bytes, time } = asked;
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        session.say(Message::Hello(Hello { nonce, echoes, bytes, milliseconds })).await?;
        match session.hear().await? {
            Message::Welcome { nonce: heard, answer } if heard == nonce => match answer {
                Ok(grant) => Ok(Self { grant, ..session }),
                Err(refusal) => Err(ToolError::Refused { address, reason: refusal.reason() }),
            },
            _ => Err(session.language(MessageError::Unexpected)),
        }
    }

    /// Sends an echo, and returns how long it took.
    pub async fn echo(&mut self, sequence: u64) -> Result<Duration, ToolError> {
        let echo = Echo { nonce: self.nonce, sequence };
        let begun = Instant::now();
        self.say(Message::Question(echo)).await?;
        match self.hear().await? {
            Message::Answer(answer) if answer == echo => Ok(begun.elapsed()),
            _ => Err(self.language(MessageError::Unexpected)),
        }
    }

    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns all that was sent and received so far, with headers.
    pub fn spent_bytes(&self) -> u64 {
        let Ok(info) = TcpInfo::of(&self.stream) else { return 0 };
        let header = if self.to.address.is_ipv6() { IPV6_BYTES } else { IPV4_BYTES };
        let segments = u64::from(info.segments_out) + u64::from(info.segments_in);
        info.bytes_sent + info.bytes_received + segments * header
    }

    async fn say(&mut self, message: Message) -> Result<(), ToolError> {
        let said = self.stream.write_all(&message.encode()).await;
        said.map_err(|source| self.broken(source))
    }

    async fn hear(&mut self) -> Result<Message, ToolError> {
        let mut bytes = [0; BYTES];
        let heard = self.stream.read_exact(&mut bytes).await;
        heard.map_err(|source| self.broken(source))?;
        Message::decode(&bytes).map_err(|error| self.language(error))
    }

    pub const fn broken(&self, source: io::Error) -> ToolError {
        ToolError::Broken { address: self.to.address, source }
    }

    const fn language(&self, source: MessageError) -> ToolError {
        ToolError::Language { address: self.to.address, source }
    }
}
