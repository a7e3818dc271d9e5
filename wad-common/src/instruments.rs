//! TCP knows this of a flow, and the agent reads it when asked: a head that is the
//! same for all kernels, and the members of `struct tcp_sock` that were asked for.

use crate::{policy::CONGESTION_BYTES, progress::Limits, record, refused::Refused};

/// Members that are read of a flow at most.
pub const MAX_MEMBERS: usize = 96;

/// A place says where a number lies in `struct tcp_sock`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// It lies so many bytes from the start of the struct; of a bit field this is the
    /// first byte.
    pub offset: u32,
    /// Bytes that hold it, 8 at most.
    pub bytes: u16,
    /// It is not 0 for a whole number of 1, 2, 4 or 8 bytes that the verifier is
    /// known to let programs load: that is quicker than to ask the kernel for a copy.
    pub is_plain: u16,
}
record!(Place, size = 8);

/// The members that are read of each flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    /// There are so many.
    pub count: u32,
    /// The rest is not used.
    pub places: [Place; MAX_MEMBERS],
}
record!(Members, size = 4 + 8 * MAX_MEMBERS);

impl Members {
    /// None at all.
    pub const NONE: Self =
        Self { count: 0, places: [Place { offset: 0, bytes: 0, is_plain: 0 }; MAX_MEMBERS] };
}

/// A flow at one moment. It is followed by its [`Process`](crate::process::Process), its
/// [`Signals`](crate::signals::Signals), and the values of its members, each in the low bytes of 64 bits (on a machine of that byte
/// order).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The socket's cookie.
    pub cookie: u64,
    /// Now, CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// It was established then or, if it ran already, found; on the same clock.
    pub established_ns: u64,
    /// Address of the other end in network byte order, IPv4 mapped into IPv6.
    pub remote: [u32; 4],
    /// This end has this address, in the same form.
    pub local: [u32; 4],
    /// In host byte order.
    pub remote_port: u16,
    /// In host byte order.
    pub local_port: u16,
    /// Index of its policy.
    pub policy: u32,
    /// A [`crate::flow::Role`].
    pub role: u32,
    /// A [`crate::flow::Outcome`].
    pub outcome: u32,
    /// Inode of its network namespace.
    pub netns: u32,
    /// These clocks are up to now.
    pub limits: Limits,
    /// Congestion control that it has, zero-terminated.
    pub congestion: [u8; CONGESTION_BYTES],
    /// The kernel refused these of what its policy asks for.
    pub refused: Refused,
    /// Number of its cgroup; 0 where the kernel does not say.
    pub cgroup: u64,
    /// The user that the socket belongs to.
    pub user: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Head, size = 136);
