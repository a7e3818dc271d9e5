//! A field is one member of a struct, in the bytes that hold it.

/// A member that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The member's place among those that are read.
    pub n: usize,
    /// Where a bit field begins within the bytes.
    pub shift: u32,
    pub size_bits: u32,
    pub is_signed: bool,
}

impl Field {
    /// Makes a field of 64 bits.
    pub const fn whole(n: usize) -> Self {
        Self { n, shift: 0, size_bits: 64, is_signed: false }
    }

    /// Returns its own bits of the bytes that hold it, the others zero.
    pub const fn bits(self, bytes: u64) -> u64 {
        (bytes >> self.shift) & (u64::MAX >> (64 - self.size_bits))
    }

    pub fn number(self, bytes: u64) -> f64 {
        let bits = self.bits(bytes);
        if self.is_signed {
            let unused = 64 - self.size_bits;
            ((bits << unused).cast_signed() >> unused) as f64
        } else {
            bits as f64
        }
    }
}
