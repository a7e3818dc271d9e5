//! A TUN device with segmentation offload: its packets are read and written
//! here as the kernel's own drivers see them, up to 64 KiB at a time.

use std::{
    fs::{File, OpenOptions},
    io::{self, IoSlice, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
};

use nix::{ioctl_write_int, ioctl_write_ptr};

use super::packet::VNET_BYTES;
use crate::netns::{Netns, NetnsError};

/// The largest read: an IPv6 packet with a payload of 65,535 bytes.
pub const FRAME_BYTES: usize = VNET_BYTES + 40 + 65_535;

/// The most packets that wait for a reader, each of one or more segments: long enough
/// for any delay of the emulator, so that nothing is lost before it. Linux 7.2 takes no
/// more.
pub const QUEUE_PACKETS: usize = 32_767;

// include/uapi/linux/if_tun.h
ioctl_write_ptr!(tun_set_iff, b'T', 202, libc::c_int);
ioctl_write_int!(tun_set_offload, b'T', 208);
const TUN_F_CSUM: libc::c_int = 1;
const TUN_F_TSO4: libc::c_int = 2;
const TUN_F_TSO6: libc::c_int = 4;

/// Tells what went wrong with a device.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    #[error("cannot open /dev/net/tun")]
    Open { source: io::Error },
    #[error("cannot make TUN device {name} with segmentation offload")]
    Set { name: &'static str, source: nix::Error },
    #[error(transparent)]
    Netns(#[from] NetnsError),
}

/// A device in a namespace; it goes away when dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// # Errors
    /// Without CAP_NET_ADMIN or /dev/net/tun.
    pub fn create(netns: &Netns, name: &'static str) -> Result<Self, TunError> {
        netns.run(|| Self::create_here(name))?
    }

    fn create_here(name: &'static str) -> Result<Self, TunError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|source| TunError::Open { source })?;
        // SAFETY: an all-zero ifreq is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        let offload = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
        // SAFETY: TUNSETIFF reads an ifreq, whatever the type in its number
        // says; TUNSETOFFLOAD takes its argument by value. The file is open.
        unsafe {
            tun_set_iff(file.as_raw_fd(), (&raw const request).cast())
                .and_then(|_| tun_set_offload(file.as_raw_fd(), offload as libc::c_ulong))
        }
        .map_err(|source| TunError::Set { name, source })?;
        Ok(Self { file })
    }

    /// Reads one packet, its vnet header first; none if there is none now.
    ///
    /// # Errors
    /// When the device is down.
    pub fn read(&self, frame: &mut [u8; FRAME_BYTES]) -> io::Result<Option<usize>> {
        match (&self.file).read(frame) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a packet to the kernel, vnet header first.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.file).write_vectored(parts).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
