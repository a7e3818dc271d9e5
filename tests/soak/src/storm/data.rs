//! The bytes that connections carry: a block of random ones, again and again, from a place that
//! each connection chooses. So each byte is known by where it is.

use std::{
    io::{self, Read, Write},
    sync::LazyLock,
};

use wad_testbed::random::Random;

const BLOCK_BYTES: usize = 64 * 1024;

/// Twice, so that there is a whole block from each place on.
static BLOCKS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(1);
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|_| random.next() as u8).collect();
    [&block[..], &block[..]].concat()
});

/// So many bytes, from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub place: u64,
    pub bytes: u64,
}

impl Data {
    fn pieces(self) -> impl Iterator<Item = &'static [u8]> {
        let from = (self.place % BLOCK_BYTES as u64) as usize;
        let mut left = self.bytes;
        std::iter::from_fn(move || {
            let length = left.min(BLOCK_BYTES as u64);
            left -= length;
            (length > 0).then(|| &BLOCKS[from..from + length as usize])
        })
    }

    /// Sends them.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send(self, mut to: impl Write) -> io::Result<()> {
        self.pieces().try_for_each(|piece| to.write_all(piece))
    }

    /// Receives them, and compares each.
    ///
    /// # Errors
    /// When one is wrong, or missing.
    pub fn receive(self, mut from: impl Read) -> io::Result<()> {
        let mut buffer = vec![0; BLOCK_BYTES];
        for piece in self.pieces() {
            let got = &mut buffer[..piece.len()];
            from.read_exact(got)?;
            if got != piece {
                return Err(io::Error::other("what arrived is not what was sent"));
            }
        }
        Ok(())
    }
}

/// A client sends this first, and then so much, and gets so much back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub up: Data,
    pub down: Data,
}

impl Request {
    pub const BYTES: usize = 32;

    /// # Errors
    /// When the connection fails.
    pub fn send(self, mut to: impl Write) -> io::Result<()> {
        let words = [self.up.place, self.up.bytes, self.down.place, self.down.bytes];
        to.write_all(&words.map(u64::to_be_bytes).concat())
    }

    /// # Errors
    /// When the connection fails.
    pub fn receive(mut from: impl Read) -> io::Result<Self> {
        let mut words = [[0; 8]; 4];
        words.iter_mut().try_for_each(|word| from.read_exact(word))?;
        let [up, up_bytes, down, down_bytes] = words.map(u64::from_be_bytes);
        let up = Data { place: up, bytes: up_bytes };
        Ok(Self { up, down: Data { place: down, bytes: down_bytes } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_expected_and_nothing_else() {
        let data = Data { place: 12_345, bytes: 200_000 };
        let mut sent = Vec::new();
        data.send(&mut sent).unwrap();
        assert_eq!(sent.len(), 200_000);
        data.receive(&sent[..]).unwrap();
        assert!(Data { place: 12_346, ..data }.receive(&sent[..]).is_err());
        assert!(data.receive(&sent[1..]).is_err());
        sent[150_000] ^= 1;
        assert!(data.receive(&sent[..]).is_err());
    }

    #[test]
    fn a_request_arrives_as_it_was_made() {
        let data = |place, bytes| Data { place, bytes };
        let request = Request { up: data(1, 2), down: data(3, 4) };
        let mut sent = Vec::new();
        request.send(&mut sent).unwrap();
        assert_eq!((sent.len(), Request::receive(&sent[..]).unwrap()), (Request::BYTES, request));
    }
}
