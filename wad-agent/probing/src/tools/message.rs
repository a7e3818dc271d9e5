//! Probes and answerers say this to each other: 32 bytes, in network byte order.
//!
//! | Bytes | What |
//! |---|---|
//! | 0 to 3 | `WADP` |
//! | 4 | the version, 1 |
//! | 5 | the kind: 1 an echo's question, 2 its answer, 3 a hello, 4 a welcome |
//! | 6 to 7 | hello: how many echoes follow; welcome: 0, or why it is none |
//! | 8 to 15 | a number that is the run's alone |
//! | 16 to 23 | echo: its place in the order; hello, welcome: bytes that follow |
//! | 24 to 31 | hello, welcome: the time for all that, in milliseconds |
//!
//! Over UDP there are echoes alone. A connection begins with a hello and its welcome; then
//! come echoes, and behind the last of them the bytes, which nobody reads.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Bytes of a message.
pub const BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"WADP";
const VERSION: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Question(Echo),
    Answer(Echo),
    Hello(Hello),
    Welcome { nonce: u64, answer: Result<Grant, Refusal> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    pub nonce: u64,
    pub sequence: u64,
}

/// A hello asks for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub nonce: u64,
    pub echoes: u16,
    pub bytes: u64,
    pub milliseconds: u64,
}

/// A grant bounds a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub bytes: u64,
    pub milliseconds: u64,
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Prefix = 1,
    Busy = 2,
    Echoes = 3,
}

impl Refusal {
    const ALL: [Self; 3] = [Self::Prefix, Self::Busy, Self::Echoes];

    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Prefix => "this host's address is not among its `answer_to`",
            Self::Busy => "as many transfers as it takes are under way",
            Self::Echoes => "so many echoes it does not send back",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("{0} bytes, where a message has {BYTES}")]
    Short(usize),
    #[error("it does not begin with WADP")]
    Magic,
    #[error("version {0}, where this end speaks version {VERSION}")]
    Version(u8),
    #[error("kind {0}, which there is not")]
    Kind(u8),
    #[error("refusal {0}, which there is not")]
    Refusal(u16),
    #[error("another message than the one that was due")]
    Unexpected,
}

/// Returns a number that no other run has, and nobody guesses.
pub fn nonce() -> u64 {
    // The keys of the standard library's hash maps are random.
    RandomState::new().build_hasher().finish()
}

impl Message {
    #[must_use]
    pub fn encode(self) -> [u8; BYTES] {
        let (kind, short, nonce, first, second) = match self {
            Self::Question(Echo { nonce, sequence }) => (1, 0, nonce, sequence, 0),
            Self::Answer(Echo { nonce, sequence }) => (2, 0, nonce, sequence, 0),
            Self::Hello(Hello { nonce, echoes, bytes, milliseconds }) => {
                (3, echoes, nonce, bytes, milliseconds)
            }
            Self::Welcome { nonce, answer: Ok(Grant { bytes, milliseconds }) } => {
                (4, 0, nonce, bytes, milliseconds)
            }
            Self::Welcome { nonce, answer: Err(refusal) } => (4, refusal as u16, nonce, 0, 0),
        };
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&[VERSION, kind]);
        bytes[6..8].copy_from_slice(&short.to_be_bytes());
        bytes[8..16].copy_from_slice(&nonce.to_be_bytes());
        bytes[16..24].copy_from_slice(&first.to_be_bytes());
        bytes[24..].copy_from_slice(&second.to_be_bytes());
        bytes
    }

    /// Reads the message that some bytes begin with.
    ///
    /// # Errors
    /// When they are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let Some(bytes) = bytes.first_chunk::<BYTES>() else {
            return Err(MessageError::Short(bytes.len()));
        };
        if bytes[..4] != MAGIC {
            return Err(MessageError::Magic);
        }
        if bytes[4] != VERSION {
            return Err(MessageError::Version(bytes[4]));
        }
        let long = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight of them");
            u64::from_be_bytes(bytes)
        };
        let short = u16::from_be_bytes([bytes[6], bytes[7]]);
        let (nonce, first, second) = (long(8), long(16), long(24));
        match bytes[5] {
            1 => Ok(Self::Question(Echo { nonce, sequence: first })),
            2 => Ok(Self::Answer(Echo { nonce, sequence: first })),
            3 => {
                let (echoes, bytes, milliseconds) = (short, first, second);
                Ok(Self::Hello(Hello { nonce, echoes, bytes, milliseconds }))
            }
            4 => {
                let refusal = Refusal::ALL.into_iter().find(|refusal| *refusal as u16 == short);
                let answer = match (short, refusal) {
                    (0, _) => Ok(Grant { bytes: first, milliseconds: second }),
                    (_, Some(refusal)) => Err(refusal),
                    (other, None) => return Err(MessageError::Refusal(other)),
                };
                Ok(Self::Welcome { nonce, answer })
            }
            other => Err(MessageError::Kind(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> impl Strategy<Value = Message> {
        let numbers = (any::<u64>(), any::<u16>(), any::<u64>(), any::<u64>());
        (0..5, numbers).prop_map(|(kind, (nonce, echoes, bytes, milliseconds))| match kind {
            0 => Message::Question(Echo { nonce, sequence: bytes }),
            1 => Message::Answer(Echo { nonce, sequence: bytes }),
            2 => Message::Hello(Hello { nonce, echoes, bytes, milliseconds }),
            3 => Message::Welcome { nonce, answer: Ok(Grant { bytes, milliseconds }) },
            _ => {
                let refusal = Refusal::ALL[usize::from(echoes) % Refusal::ALL.len()];
                Message::Welcome { nonce, answer: Err(refusal) }
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(message in messages()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn what_is_no_message_is_named() {
        let bytes = Message::Question(Echo { nonce: 7, sequence: 8 }).encode();
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes;
            bytes[at] = to;
            Message::decode(&bytes).unwrap_err()
        };
        assert_eq!(Message::decode(&bytes[..31]), Err(MessageError::Short(31)));
        assert_eq!(changed(0, b'w'), MessageError::Magic);
        assert_eq!(changed(4, 2), MessageError::Version(2));
        assert_eq!(changed(5, 0), MessageError::Kind(0));
        let mut refused = bytes;
        refused[5..8].copy_from_slice(&[4, 0, 9]);
        assert_eq!(Message::decode(&refused), Err(MessageError::Refusal(9)));
    }
}
