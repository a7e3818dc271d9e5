//! Iterators over objects of the kernel: linked, and read like files.

use std::{
    fs::File,
    io::{self, Read as _},
    ops::ControlFlow,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use wad_linux::sockstat;
use wad_struct_ops::sys;

use super::{Result, TuningError};

/// Makes an iterator of its program.
pub fn link(program: &OwnedFd) -> Result<OwnedFd> {
    sys::link_iterator(program.as_fd()).map_err(TuningError::Running)
}

/// Goes on with the next namespace, or breaks off and keeps the error.
pub fn and_go_on<T>(done: io::Result<T>, result: &mut io::Result<()>) -> ControlFlow<()> {
    match done {
        Ok(_) => ControlFlow::Continue(()),
        Err(error) => {
            *result = Err(error);
            ControlFlow::Break(())
        }
    }
}

/// Returns what an iterator has to say: a run of it.
pub fn read(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    read_to(link, &mut output)?;
    Ok(output)
}

/// Reads what an iterator over the sockets of the calling thread's network namespace has to
/// say, behind what is there: without a walk where it has none, as most of thousands.
pub fn read_sockets(link: BorrowedFd<'_>, output: &mut Vec<u8>) -> io::Result<()> {
    if sockstat::has_tcp() { read_to(link, output) } else { Ok(()) }
}

/// Reads what an iterator has to say, behind what is there.
fn read_to(link: BorrowedFd<'_>, output: &mut Vec<u8>) -> io::Result<()> {
    let mut file = File::from(sys::create_iterator(link)?);
    loop {
        match file.read_to_end(output) {
            Ok(_) => return Ok(()),
            // After a million sockets with nothing to say (`bpf_seq_read()`).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
