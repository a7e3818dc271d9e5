//! Unpacks zstd: one frame after the other, as long as there are some.

use std::{
    fmt,
    io::{self, BufRead, Read},
};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

pub struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R> Frames<R> {
    pub fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_in_frame: false }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !out.is_empty() {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            if !self.is_in_frame {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.decoder.reset(&mut self.source).map_err(io::Error::other)?;
                self.is_in_frame = true;
            } else if self.decoder.is_finished() {
                self.is_in_frame = false;
                if self.decoder.get_checksum_from_data() != self.decoder.get_calculated_checksum() {
                    return Err(io::Error::other("the checksum of a frame is wrong"));
                }
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(io::Error::other)?;
            }
        }
        Ok(0)
    }
}

impl<R> fmt::Debug for Frames<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Frames")
    }
}
