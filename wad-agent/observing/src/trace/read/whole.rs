//! Lets whole lines through, and keeps what made an end of them: of a number that
//! was cut off, what is left reads as another one.

use std::io::{self, BufRead, Read};

/// No line of a trace is longer.
const MAX_LINE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub struct Whole<R> {
    source: R,
    line: Vec<u8>,
    given: usize,
    end: Option<String>,
    is_over: bool,
}

impl<R: BufRead> Whole<R> {
    pub fn new(source: R) -> Self {
        Self { source, line: Vec::new(), given: 0, end: None, is_over: false }
    }

    /// Returns what came before the end of the file, if anything did.
    pub fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    fn next(&mut self) {
        self.line.clear();
        self.given = 0;
        let read = (&mut self.source).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line);
        if self.line.ends_with(b"\n") && read.is_ok() {
            return;
        }
        self.is_over = true;
        self.end = match read {
            Err(error) => Some(error.to_string()),
            Ok(0) => None,
            Ok(_) => Some("a line is cut off".to_owned()),
        };
        self.line.clear();
    }
}

impl<R: BufRead> Read for Whole<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.line.len() && !self.is_over {
            self.next();
        }
        let rest = &self.line[self.given..];
        let bytes = rest.len().min(out.len());
        out[..bytes].copy_from_slice(&rest[..bytes]);
        self.given += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &[u8]) -> (String, Option<String>) {
        let mut lines = Whole::new(text);
        let mut read = String::new();
        lines.read_to_string(&mut read).unwrap();
        (read, lines.end)
    }

    #[test]
    fn only_whole_lines_come_through() {
        assert_eq!(whole(b"a\nbc\n"), ("a\nbc\n".to_owned(), None));
        assert_eq!(whole(b""), (String::new(), None));
        let (read, end) = whole(b"a\nbc\n12");
        assert_eq!((read.as_str(), end.is_some()), ("a\nbc\n", true));
        let long = vec![b'x'; 2 << 20];
        assert!(whole(&long).1.is_some());
    }
}
