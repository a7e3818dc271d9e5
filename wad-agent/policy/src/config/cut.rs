//! Buffers that are smaller than a path asks for, as `[limits]` or the kernel has it. All
//! sizes are arguments of SO_SNDBUF and SO_RCVBUF, in bytes.

use std::fmt;

/// The largest buffer that there may be, and whose word that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    pub bytes: u32,
    pub by: Limit,
}

/// Says what bounds a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    MaxBuffer,
    /// One flow is to fit into what all may hold.
    MaxMemory,
    Kernel,
}

/// A buffer is smaller than the path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub from_bytes: u64,
    pub to: Most,
}

/// The buffers of a path that are cut; None for those that are as the path asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutBuffers {
    pub sndbuf: Option<Cut>,
    pub rcvbuf: Option<Cut>,
    /// The buffers that the kernel sizes.
    pub autotune: Option<Cut>,
}

impl Most {
    /// Returns the size within the bound, and the cut if there is one.
    pub fn cut(self, bytes: u64) -> (u32, Option<Cut>) {
        match u32::try_from(bytes) {
            Ok(bytes) if bytes <= self.bytes => (bytes, None),
            _ => (self.bytes, Some(Cut { from_bytes: bytes, to: self })),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxBuffer => "[limits] max_buffer",
            Self::MaxMemory => "a quarter of [limits] max_memory",
            Self::Kernel => "the kernel's bound",
        })
    }
}
