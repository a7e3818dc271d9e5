//! Records of the kernel side in the bytes that it gives.

use aya::Pod;

/// Reads a record from just as many bytes.
pub fn read<T: Pod>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: there are as many bytes, all values of them are records (integers only, see
    // `record!` of wad-common), and the read asks for no alignment.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// Reads all records of an iterator's output.
pub fn all<T: Pod>(output: &[u8]) -> impl Iterator<Item = T> {
    output.chunks_exact(size_of::<T>()).map(read)
}
