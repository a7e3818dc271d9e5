//! The kernel passes a context to a struct_ops program.

/// The arguments of its callback, each in 64 bits.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Context(*const u64);

impl Context {
    #[inline(always)]
    pub fn argument(self, n: usize) -> u64 {
        // SAFETY: the verifier checks the load against the callback's type.
        // Volatile, so that a choice between arguments stays one between loads:
        // one between addresses the verifier refuses.
        unsafe { self.0.add(n).read_volatile() }
    }

    /// Returns the state that begins, of the arguments of `set_state`: the kernel passes one
    /// byte, and the rest of the register is not defined.
    #[inline(always)]
    pub fn new_state(self) -> u8 {
        self.argument(1) as u8
    }
}
