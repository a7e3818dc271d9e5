//! Small BPF programs of this crate's own, instruction by instruction.

use std::{
    ffi::CStr,
    io,
    os::fd::{FromRawFd, OwnedFd},
};

// include/uapi/linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;

/// The fields of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    instructions_at: u64,
    license_at: u64,
    log_level: u32,
    log_bytes: u32,
    log_at: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// Loads a program of this kind (`enum bpf_prog_type`) and name, at most 15
/// characters.
///
/// # Errors
/// When the kernel refuses it.
pub fn load(kind: u32, name: &CStr, program: &[u64]) -> io::Result<OwnedFd> {
    let mut load = Load {
        kind,
        instructions: program.len() as u32,
        instructions_at: program.as_ptr() as u64,
        license_at: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log_at: 0,
        kernel_version: 0,
        flags: 0,
        name: [0; 16],
    };
    let bytes = name.to_bytes();
    load.name[..bytes.len()].copy_from_slice(bytes);
    let program = command(BPF_PROG_LOAD, &mut load)?;
    // SAFETY: a descriptor that was just made and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(program) })
}

/// `struct bpf_insn`; `registers` is the source above the destination.
#[must_use]
pub const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
    code as u64
        | (registers as u64) << 8
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// A command of bpf(2) with the fields of `union bpf_attr` that it needs.
///
/// # Errors
/// When the kernel refuses it.
pub fn command<T>(command: libc::c_long, attribute: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes the fields of `attribute`, whose pointers
    // are valid, and no more than its size.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attribute, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
