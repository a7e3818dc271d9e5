//! A page of memory that never comes: whoever reads it waits (userfaultfd(2)), as with a file on a
//! server that hangs. A send(2) from it holds its socket's lock all the while.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr, thread,
    thread::JoinHandle,
};

const PAGE_BYTES: usize = 4096;

// include/uapi/linux/userfaultfd.h
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;

/// The page. When it is dropped, it comes as zeros.
pub struct MissingPage {
    faults: Option<OwnedFd>,
    at: *mut libc::c_void,
    sender: Option<JoinHandle<()>>,
}

impl MissingPage {
    /// Makes the page.
    ///
    /// # Errors
    /// Without root, or where the kernel has no userfaultfd(2).
    pub fn new() -> io::Result<Self> {
        // SAFETY: it takes no pointer.
        let faults = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        if faults < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made and is nobody else's.
        let faults = unsafe { OwnedFd::from_raw_fd(faults as i32) };
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory of its own.
        let at = unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut page = Self { faults: None, at, sender: None };
        // `struct uffdio_api`, and `struct uffdio_register`.
        ask(&faults, UFFDIO_API, &mut [UFFD_API, 0, 0])?;
        let register = &mut [at as u64, PAGE_BYTES as u64, UFFDIO_REGISTER_MODE_MISSING, 0];
        ask(&faults, UFFDIO_REGISTER, register)?;
        page.faults = Some(faults);
        Ok(page)
    }

    /// Has a thread send the page by a socket, which holds the socket's lock from then on.
    pub fn send_by(&mut self, socket: &impl AsRawFd) {
        let (socket, at) = (socket.as_raw_fd(), self.at as usize);
        self.sender = Some(thread::spawn(move || {
            // SAFETY: the page is there for as long as this thread, which its owner waits for.
            unsafe { libc::send(socket, at as *const _, PAGE_BYTES, libc::MSG_NOSIGNAL) };
        }));
    }

    /// Whether the thread still waits for the page.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_finished())
    }
}

fn ask<const N: usize>(
    faults: &OwnedFd,
    request: libc::c_ulong,
    argument: &mut [u64; N],
) -> io::Result<()> {
    // SAFETY: the argument is the struct that this request reads and writes.
    let result = unsafe { libc::ioctl(faults.as_raw_fd(), request as _, argument.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Drop for MissingPage {
    fn drop(&mut self) {
        // With the descriptor the page is like any other, and who waits for it goes on.
        self.faults = None;
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
        // SAFETY: nobody has it any more.
        unsafe { libc::munmap(self.at, PAGE_BYTES) };
    }
}
