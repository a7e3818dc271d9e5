//! Somebody else's sock_ops programs: one sets the window that connections offer first,
//! which shows in their SYNs, another takes the callbacks that others have asked for.

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use crate::{bpf, cgroup::Cgroup};

// include/uapi/linux/bpf.h
const BPF_PROG_ATTACH: libc::c_long = 8;
const BPF_PROG_DETACH: libc::c_long = 9;
const BPF_PROG_TYPE_SOCK_OPS: u32 = 13;
const BPF_CGROUP_SOCK_OPS: u32 = 3;
const BPF_SOCK_OPS_RWND_INIT: i32 = 2;
const BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: i32 = 4;
const BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB: i32 = 5;
/// `bpf_sock_ops_cb_flags_set()`.
const BPF_FUNC_SOCK_OPS_CB_FLAGS_SET: i32 = 59;

/// Tells whether others may be attached to the same cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Sharing {
    Exclusive = 0,
    /// BPF_F_ALLOW_MULTI
    Multi = 2,
}

/// Tells which step of loading or attaching the program failed.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses to {step} a program of the test's own")]
pub struct ForeignError {
    step: &'static str,
    source: io::Error,
}

/// A program of somebody else's that is attached; it is detached when dropped.
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
        Self::attach_program(cgroup, sharing, name, &offering(window_segments))
    }

    /// Attaches a program of this name beside others, which has connections call none of
    /// them any more once they are established. It has to come after those.
    ///
    /// # Errors
    /// Without root.
    pub fn clear_callbacks(cgroup: &Cgroup, name: &CStr) -> Result<Self, ForeignError> {
        Self::attach_program(cgroup, Sharing::Multi, name, &CLEARING)
    }

    fn attach_program(
        cgroup: &Cgroup,
        sharing: Sharing,
        name: &CStr,
        program: &[u64],
    ) -> Result<Self, ForeignError> {
        let failed = |step| move |source| ForeignError { step, source };
        let cgroup = File::open(cgroup.path()).map_err(failed("open the cgroup of"))?.into();
        let program = bpf::load(BPF_PROG_TYPE_SOCK_OPS, name, program).map_err(failed("load"))?;
        let foreign = Self { program, cgroup };
        foreign.command(BPF_PROG_ATTACH, sharing as u32).map_err(failed("attach"))?;
        Ok(foreign)
    }

    fn command(&self, command: libc::c_long, flags: u32) -> io::Result<()> {
        let (cgroup, program) = (self.cgroup.as_raw_fd(), self.program.as_raw_fd());
        let mut attach = [cgroup as u32, program as u32, BPF_CGROUP_SOCK_OPS, flags];
        bpf::command(command, &mut attach).map(|_| ())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Err(error) = self.command(BPF_PROG_DETACH, 0) {
            crate::say(&format!("a program of a test's own stays attached: {error}"));
        }
    }
}

fn offering(window_segments: i32) -> [u64; 6] {
    [
        // r0 = 1
        bpf::instruction(0xb7, 0x00, 0, 1),
        // r2 = ctx->op
        bpf::instruction(0x61, 0x12, 0, 0),
        // Over the next two unless it is RWND_INIT
        bpf::instruction(0x55, 0x02, 2, BPF_SOCK_OPS_RWND_INIT),
        // ctx->reply = window_segments
        bpf::instruction(0xb7, 0x03, 0, window_segments),
        bpf::instruction(0x63, 0x31, 4, 0),
        // return r0
        bpf::instruction(0x95, 0x00, 0, 0),
    ]
}

const CLEARING: [u64; 7] = [
    // r2 = ctx->op
    bpf::instruction(0x61, 0x12, 0, 0),
    // Over the next one if it is established, as either end
    bpf::instruction(0x15, 0x02, 1, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB),
    // Over the next two unless it is
    bpf::instruction(0x55, 0x02, 2, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB),
    // bpf_sock_ops_cb_flags_set(ctx, 0)
    bpf::instruction(0xb7, 0x02, 0, 0),
    bpf::instruction(0x85, 0x00, 0, BPF_FUNC_SOCK_OPS_CB_FLAGS_SET),
    // return 1
    bpf::instruction(0xb7, 0x00, 0, 1),
    bpf::instruction(0x95, 0x00, 0, 0),
];
