//! Compression of what is sent over HTTP: little effort gets most of what there is to gain.

use std::io::{self, Write as _};

use flate2::{Compression, write::GzEncoder};
use hyper::body::Bytes;

pub fn gzip(bytes: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.into())
}
