//! Somebody else's sock_ops program: it sets the window that connections offer
//! first, which shows in their SYNs.

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::cgroup::Cgroup;

// include/uapi/linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const BPF_PROG_DETACH: libc::c_long = 9;
const BPF_PROG_TYPE_SOCK_OPS: u32 = 13;
const BPF_CGROUP_SOCK_OPS: u32 = 3;
const BPF_SOCK_OPS_RWND_INIT: i32 = 2;

/// Whether others may be attached to the same cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Sharing {
    Exclusive = 0,
    /// BPF_F_ALLOW_MULTI
    Multi = 2,
}

/// A step of loading or attaching it failed.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses to {step} a program of the test's own")]
pub struct ForeignError {
    step: &'static str,
    source: io::Error,
}

/// The program, attached; detached when dropped.
#[derive(Debug)]
pub struct Foreign {
    program: OwnedFd,
    cgroup: OwnedFd,
}

impl Foreign {
    /// Attaches a program of this name, at most 15 characters, which makes
    /// connections offer so many segments at first.
    ///
    /// # Errors
    /// Without root.
    pub fn attach(
        cgroup: &Cgroup,
        sharing: Sharing,
        name: &CStr,
        window_segments: i32,
    ) -> Result<Self, ForeignError> {
        let failed = |step| move |source| ForeignError { step, source };
        let cgroup = File::open(cgroup.path()).map_err(failed("open the cgroup of"))?.into();
        let program = load(name, window_segments).map_err(failed("load"))?;
        let foreign = Self { program, cgroup };
        foreign.command(BPF_PROG_ATTACH, sharing as u32).map_err(failed("attach"))?;
        Ok(foreign)
    }

    fn command(&self, command: libc::c_long, flags: u32) -> io::Result<()> {
        let (cgroup, program) = (self.cgroup.as_raw_fd(), self.program.as_raw_fd());
        bpf(command, &[cgroup as u32, program as u32, BPF_CGROUP_SOCK_OPS, flags]).map(|_| ())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Err(error) = self.command(BPF_PROG_DETACH, 0) {
            crate::say(&format!("a program of a test's own stays attached: {error}"));
        }
    }
}

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

fn load(name: &CStr, window_segments: i32) -> io::Result<OwnedFd> {
    let program = [
        // r0 = 1
        instruction(0xb7, 0x00, 0, 1),
        // r2 = ctx->op
        instruction(0x61, 0x12, 0, 0),
        // Over the next two unless it is RWND_INIT
        instruction(0x55, 0x02, 2, BPF_SOCK_OPS_RWND_INIT),
        // ctx->reply = window_segments
        instruction(0xb7, 0x03, 0, window_segments),
        instruction(0x63, 0x31, 4, 0),
        // return r0
        instruction(0x95, 0x00, 0, 0),
    ];
    let mut load = Load {
        kind: BPF_PROG_TYPE_SOCK_OPS,
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
    let program = bpf(BPF_PROG_LOAD, &load)?;
    // SAFETY: a descriptor that was just made and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(program) })
}

/// `struct bpf_insn`; `registers` is the source above the destination.
const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
    code as u64
        | (registers as u64) << 8
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

fn bpf<T>(command: libc::c_long, attribute: &T) -> io::Result<i32> {
    // SAFETY: the command reads the fields of `attribute`, whose pointers are
    // valid, and writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attribute, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
