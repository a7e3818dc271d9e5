//! Finds the programs of a congestion control that is registered already, by whomever: the
//! struct that it was registered with has their numbers in the places of callbacks.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
};

use aya_obj::generated::bpf_link_type;

use super::{BtfError, KernelBtf, OPS, OPS_VALUE, sys};

/// The layout of what a congestion control is registered with.
pub struct Registered {
    value_bytes: usize,
    /// Offsets of the callbacks, in bytes.
    callbacks: Vec<usize>,
}

impl Registered {
    /// Finds the places of these members of `tcp_congestion_ops`.
    pub fn new(btf: &KernelBtf, members: &[&str]) -> Result<Self, BtfError> {
        let ops = btf.structure(OPS)?;
        let value = btf.structure(OPS_VALUE)?;
        let data_bytes = value.member("data")?.offset_bytes();
        let offset = |member: &&str| Ok((data_bytes + ops.member(member)?.offset_bytes()) as usize);
        let callbacks = members.iter().map(offset).collect::<Result<_, BtfError>>()?;
        Ok(Self { value_bytes: value.size_bytes as usize, callbacks })
    }

    /// Returns the numbers of the programs behind the link, or before Linux 6.4 the map, of
    /// a congestion control. Of a link it takes CAP_SYS_ADMIN.
    pub fn programs(&self, registered: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
        let mut value = vec![0; self.value_bytes];
        // SAFETY: the kernel's BTF says how large a congestion control is.
        match unsafe { sys::look_up_first(registered, &mut value) } {
            // It is not a map.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let info = sys::link_info(registered)?;
                if info.type_ != bpf_link_type::BPF_LINK_TYPE_STRUCT_OPS as u32 {
                    return Err(error);
                }
                // SAFETY: such a link has this member of the union.
                let map = unsafe { info.__bindgen_anon_1.struct_ops.map_id };
                let map = sys::map_by_id(map)?;
                // SAFETY: as above.
                unsafe { sys::look_up_first(map.as_fd(), &mut value) }?;
            }
            result => result?,
        }
        Ok(self.numbers(&value))
    }

    fn numbers(&self, value: &[u8]) -> Vec<u32> {
        let number = |at: &usize| {
            let word = value.get(*at..).and_then(|rest| rest.first_chunk())?;
            u32::try_from(u64::from_ne_bytes(*word)).ok().filter(|number| *number != 0)
        };
        self.callbacks.iter().filter_map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Registered;

    #[test]
    fn only_numbers_in_the_places_of_callbacks_count() {
        let registered = Registered { value_bytes: 40, callbacks: vec![8, 16, 24, 36] };
        let words = [7, 11, 0, u64::MAX, 13];
        let value: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(registered.numbers(&value), [11]);
    }
}
