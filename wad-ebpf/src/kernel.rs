//! A struct of the kernel, whose type the verifier knows: each load is checked against the
//! kernel's BTF when the program is loaded, and costs a tenth of what a helper would.

/// A struct of the kernel, by a pointer that the kernel gave or that was loaded from one.
#[derive(Clone, Copy)]
pub struct Kernel(pub *const u8);

impl Kernel {
    /// Returns a field; zeros where the pointer turns out to be bad.
    #[inline(always)]
    #[must_use]
    pub fn read<T: Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier checks the load against the kernel's BTF.
        unsafe { self.0.wrapping_add(offset as usize).cast::<T>().read_volatile() }
    }

    /// Returns a name, by loads of the most that one can have.
    #[inline(always)]
    #[must_use]
    pub fn name(self, offset: u32) -> [u8; 16] {
        let half = |n: u32| self.read::<u64>(offset + n).to_ne_bytes();
        let mut name = [0; 16];
        let (first, second) = name.split_at_mut(8);
        first.copy_from_slice(&half(0));
        second.copy_from_slice(&half(8));
        name
    }

    /// Returns the one that a pointer of it leads to.
    #[inline(always)]
    #[must_use]
    pub fn follow(self, offset: u32) -> Self {
        Self(self.read(offset))
    }
}
