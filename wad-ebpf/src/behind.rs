//! Fields behind a pointer of one of the kernel's structs. The pointer is read as a number:
//! a load by its type has the verifier search all of the kernel's BTF by name, three times
//! (`btf_nested_type_is_trusted()`), for each way through the program that comes there. A
//! search takes some milliseconds.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

/// A struct of the kernel, by its address.
#[derive(Clone, Copy)]
pub struct Behind(u64);

impl Behind {
    /// The one at this address.
    #[inline(always)]
    #[must_use]
    pub const fn at(address: u64) -> Self {
        Self(address)
    }

    /// The one that the pointer at this place leads to.
    #[inline(always)]
    #[must_use]
    pub fn pointer(at: *const u8) -> Self {
        Self(Self(at as u64).read(0))
    }

    /// Returns the one that a pointer of it leads to.
    #[inline(always)]
    #[must_use]
    pub fn follow(self, offset: u32) -> Self {
        Self(self.read(offset))
    }

    #[inline(always)]
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Returns a field, of plain numbers; zeros where it cannot be read.
    #[inline(always)]
    #[must_use]
    pub fn read<T: Copy + Default>(self, offset: u32) -> T {
        let mut value = T::default();
        let from = self.0.wrapping_add(offset.into()) as *const _;
        // SAFETY: fills the value, whatever the address; with zeros if it is none.
        unsafe { bpf_probe_read_kernel((&raw mut value).cast(), size_of::<T>() as u32, from) };
        value
    }
}
