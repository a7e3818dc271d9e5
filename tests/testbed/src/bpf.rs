//! This crate has small BPF programs of its own, instruction by instruction, and asks
//! what the kernel tells of programs.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

// include/uapi/linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;

/// These are the fields of `union bpf_attr` for BPF_PROG_LOAD.
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

/// Returns a `struct bpf_insn`; `registers` is the source above the destination.
#[must_use]
pub const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
    code as u64
        | (registers as u64) << 8
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// Calls bpf(2) with a command and the fields of `union bpf_attr` that it needs.
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

const BPF_PROG_GET_NEXT_ID: libc::c_long = 11;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;

/// The kinds of objects that have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Program,
    Map,
    Link,
}

impl Kind {
    /// Returns what its number is called in /proc/PID/fdinfo.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::Program => "prog_id:",
            Self::Map => "map_id:",
            Self::Link => "link_id:",
        }
    }

    /// Returns the command that opens one by its number.
    const fn open(self) -> libc::c_long {
        match self {
            Self::Program => 13,
            Self::Map => 14,
            Self::Link => 30,
        }
    }

    /// Returns where its name is in what the kernel tells of it; a link has none.
    const fn name(self) -> Option<usize> {
        match self {
            Self::Program => Some(64),
            Self::Map => Some(24),
            Self::Link => None,
        }
    }
}

/// A program in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub id: u32,
    /// The first 15 letters of its name.
    pub name: String,
    /// Instructions that the verifier processed, along all paths; none where the kernel
    /// does not say, as before Linux 5.16.
    pub verified_instructions: Option<u32>,
}

/// Returns all programs in the kernel, by their ids.
///
/// # Errors
/// Without root.
pub fn loaded() -> io::Result<Vec<Loaded>> {
    let mut all = Vec::new();
    let mut last = 0;
    loop {
        // The fields of `union bpf_attr`: an id, and the next one, which the kernel fills in.
        let mut next = [last, 0, 0];
        match command(BPF_PROG_GET_NEXT_ID, &mut next) {
            Ok(_) => last = next[1],
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(all),
            Err(error) => return Err(error),
        }
        match info(last) {
            Ok(program) => all.push(program),
            // It has gone meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
}

fn info(id: u32) -> io::Result<Loaded> {
    const VERIFIED: usize = 216;
    let info = told(Kind::Program, id)?;
    let verified = info[VERIFIED..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    Ok(Loaded {
        id,
        name: text_at(&info, Kind::Program.name().unwrap_or_default()),
        verified_instructions: (verified > 0).then_some(verified),
    })
}

/// Returns the name of an object, empty where its kind has none; None where it is gone.
///
/// # Errors
/// Without root.
pub fn name(kind: Kind, id: u32) -> io::Result<Option<String>> {
    match told(kind, id) {
        Ok(info) => Ok(Some(kind.name().map(|at| text_at(&info, at)).unwrap_or_default())),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// As much as is needed of the fields of `struct bpf_prog_info`, or of those of a map or a link.
const INFO_BYTES: usize = 232;

fn told(kind: Kind, id: u32) -> io::Result<[u8; INFO_BYTES]> {
    /// These are the fields of `union bpf_attr` for BPF_OBJ_GET_INFO_BY_FD.
    #[repr(C)]
    struct Ask {
        object: u32,
        bytes: u32,
        at: u64,
    }
    let object = command(kind.open(), &mut [id, 0, 0])?;
    // SAFETY: a descriptor that was just made and is nobody else's.
    let object = unsafe { OwnedFd::from_raw_fd(object) };
    let mut info = [0_u8; INFO_BYTES];
    let mut ask = Ask {
        object: object.as_raw_fd().cast_unsigned(),
        bytes: INFO_BYTES as u32,
        at: info.as_mut_ptr() as u64,
    };
    command(BPF_OBJ_GET_INFO_BY_FD, &mut ask)?;
    Ok(info)
}

/// Returns the text of at most 16 characters there.
fn text_at(info: &[u8; INFO_BYTES], at: usize) -> String {
    let name = info[at..at + 16].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
