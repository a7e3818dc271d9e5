//! Options of the sockets of probes.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
};

use nix::sys::socket::{
    AddressFamily, SetSockOpt, SockaddrStorage, setsockopt,
    sockopt::{BindToDevice, Mark, TcpUserTimeout},
};
use wad_common::probe::USER_TIMEOUT_MS;

use super::{Target, ToolError};

#[must_use]
pub const fn family(to: &Target) -> AddressFamily {
    if to.address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet }
}

#[must_use]
pub fn address(to: &Target, port: u16) -> SockaddrStorage {
    std::net::SocketAddr::new(to.address, port).into()
}

/// Sets what the target asks of a socket.
pub fn prepare(socket: &impl AsFd, to: &Target) -> Result<(), ToolError> {
    if let Some(interface) = &to.interface {
        set(socket, to, "SO_BINDTODEVICE", BindToDevice, &interface.into())?;
    }
    if let Some(mark) = &to.mark {
        set(socket, to, "SO_MARK", Mark, mark)?;
    }
    Ok(())
}

/// Shows that a connection, or those that a listener accepts, are of a probe.
pub fn sign(socket: &impl AsFd) -> nix::Result<()> {
    setsockopt(socket, TcpUserTimeout, &USER_TIMEOUT_MS)
}

/// Sends no faster than so many bytes a second, or as fast as the congestion control has it
/// (`SO_MAX_PACING_RATE`, socket(7)).
pub fn pace(socket: &impl AsFd, bytes_per_second: Option<u64>) -> io::Result<()> {
    let rate = bytes_per_second.unwrap_or(u64::MAX);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads eight bytes of `rate`, which lives for longer than the call.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of_val(&rate) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub fn set<O: SetSockOpt>(
    socket: &impl AsFd,
    to: &Target,
    name: &'static str,
    option: O,
    value: &O::Val,
) -> Result<(), ToolError> {
    setsockopt(socket, option, value).map_err(|error| ToolError::Option {
        option: name,
        address: to.address,
        source: error.into(),
    })
}

/// Sets an option that is a number: its level, itself, and its value.
pub fn set_number(
    socket: &impl AsFd,
    to: &Target,
    name: &'static str,
    (level, option, value): (i32, i32, i32),
) -> Result<(), ToolError> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the value has the length given.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    let failed = |source| ToolError::Option { option: name, address: to.address, source };
    if result == 0 { Ok(()) } else { Err(failed(io::Error::last_os_error())) }
}
