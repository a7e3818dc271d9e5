//! A struct of the kernel. How its fields are loaded depends on where the pointer to it comes
//! from: see [`Access`].

use core::marker::PhantomData;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

/// Type id of `struct tcp_sock` among the kernel's types, by which [`Scanned`] casts an address;
/// 0 where the kernel has no `bpf_rdonly_cast()` (before Linux 6.2). Set by the agent before a
/// program is loaded.
#[unsafe(no_mangle)]
static TCP_SOCK_TYPE: u32 = 0;

/// Number of a helper that no kernel has: the loader puts a call of the kernel function
/// `bpf_rdonly_cast()` in the place of a call of it, since rustc has no way to name one.
const RDONLY_CAST: usize = 0x7fff_0001;

/// How a field of a kernel's struct is loaded.
pub trait Access: Copy {
    /// Whether fields are read without the socket's lock.
    const IS_SCAN: bool;

    /// Loads what lies at this address, plain numbers; zeros where the address turns out to be
    /// bad.
    fn load<T: Copy>(from: *const u8) -> T;
}

/// The verifier knows the type of the pointer, and checks each load against the kernel's BTF: a
/// load costs a tenth of what a helper would.
#[derive(Clone, Copy)]
pub enum Typed {}

impl Access for Typed {
    const IS_SCAN: bool = false;

    #[inline(always)]
    fn load<T: Copy>(from: *const u8) -> T {
        // SAFETY: the verifier checks the load against the kernel's BTF.
        unsafe { from.cast::<T>().read_volatile() }
    }
}

/// The pointer was made of an address that a map has kept: the kernel takes loads by it, and
/// answers with zeros where nothing is there any more.
#[derive(Clone, Copy)]
pub enum Scanned {}

impl Scanned {
    /// Whether a load is one of the processor's, not a call of a helper.
    #[inline(always)]
    #[must_use]
    pub fn is_cheap() -> bool {
        tcp_sock_type() != 0
    }
}

impl Access for Scanned {
    const IS_SCAN: bool = true;

    #[inline(always)]
    fn load<T: Copy>(from: *const u8) -> T {
        if Self::is_cheap() {
            return Typed::load(from);
        }
        const { assert!(size_of::<T>() <= size_of::<u64>(), "it is one number") };
        let number = copied(from as u64, size_of::<T>() as u32);
        // SAFETY: the first bytes of the number, of which all bits are numbers. (BPF programs are
        // built for little-endian machines alone.)
        unsafe { core::mem::transmute_copy(&number) }
    }
}

/// Returns a number of at most eight bytes at an address; zero if nothing is there. It is a
/// function of its own for want of room: there are hundreds of loads.
#[inline(never)]
fn copied(address: u64, bytes: u32) -> u64 {
    let mut number = 0_u64;
    let bytes = if bytes > 8 { 8 } else { bytes };
    // SAFETY: fills as much of the number as is asked for, whatever the address.
    unsafe { bpf_probe_read_kernel((&raw mut number).cast(), bytes, address as *const _) };
    number
}

#[inline(always)]
fn tcp_sock_type() -> u32 {
    // SAFETY: a valid static. Volatile, because the compiler would otherwise take the initializer
    // for the value.
    unsafe { (&raw const TCP_SOCK_TYPE).read_volatile() }
}

/// Returns a pointer to the `struct tcp_sock` at an address, for [`Scanned`].
#[inline(always)]
#[must_use]
pub fn tcp_sock_at(address: u64) -> *const u8 {
    let type_id = tcp_sock_type();
    if type_id == 0 {
        return address as *const u8;
    }
    // SAFETY: the loader puts a kernel function there that takes these two.
    let cast: extern "C" fn(u64, u32) -> *const u8 = unsafe { core::mem::transmute(RDONLY_CAST) };
    cast(address, type_id)
}

/// A struct of the kernel, by a pointer that the kernel gave or that was loaded from one.
#[derive(Clone, Copy)]
pub struct Kernel<A = Typed>(*const u8, PhantomData<A>);

impl<A: Access> Kernel<A> {
    #[inline(always)]
    #[must_use]
    pub const fn at(pointer: *const u8) -> Self {
        Self(pointer, PhantomData)
    }

    #[inline(always)]
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns a field; zeros where the pointer turns out to be bad.
    #[inline(always)]
    #[must_use]
    pub fn read<T: Copy>(self, offset: u32) -> T {
        A::load(self.0.wrapping_add(offset as usize))
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
        Self::at(self.read(offset))
    }
}
