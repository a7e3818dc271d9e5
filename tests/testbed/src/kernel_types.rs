//! The kernel's type information (BTF), as far as tests need it: which function has which id.
//!
//! Format: `include/uapi/linux/btf.h`.

use std::{collections::HashMap, fs, io};

const PATH: &str = "/sys/kernel/btf/vmlinux";

/// Returns the names of the kernel's functions that begin with `prefix`, by their type ids.
///
/// # Errors
/// When the kernel has no type information, or its format is unknown.
pub fn functions(prefix: &str) -> io::Result<HashMap<u32, String>> {
    functions_in(&fs::read(PATH)?, prefix)
        .ok_or_else(|| io::Error::other(format!("{PATH} is malformed")))
}

fn functions_in(btf: &[u8], prefix: &str) -> Option<HashMap<u32, String>> {
    const KIND_FUNCTION: u32 = 12;
    let word = |at: usize| Some(u32::from_ne_bytes(*btf.get(at..)?.first_chunk()?));
    let header = word(4)?;
    let mut at = (header + word(8)?) as usize;
    let end = at + word(12)? as usize;
    let strings = (header + word(16)?) as usize;
    let mut found = HashMap::new();
    // Id 0 is void, which has no record.
    let mut id = 1;
    while at < end {
        let info = word(at + 4)?;
        let (kind, count) = ((info >> 24) & 0x1f, info & 0xffff);
        if kind == KIND_FUNCTION {
            let name = btf.get(strings + word(at)? as usize..)?.split(|byte| *byte == 0).next()?;
            if name.starts_with(prefix.as_bytes()) {
                found.insert(id, String::from_utf8_lossy(name).into_owned());
            }
        }
        at += record_bytes(kind, count)? as usize;
        id += 1;
    }
    Some(found)
}

/// Returns the size of a type's record: three words, and what its kind has behind them.
const fn record_bytes(kind: u32, count: u32) -> Option<u32> {
    let behind = match kind {
        2 | 7..=12 | 16 | 18 => 0,     // pointers, modifiers, functions, floats
        1 | 14 | 17 => 4,              // numbers, variables, declaration tags
        3 => 12,                       // arrays
        4 | 5 | 15 | 19 => 12 * count, // structs, unions, data sections, enums of 64 bits
        6 | 13 => 8 * count,           // enums, parameters
        _ => return None,
    };
    Some(12 + behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_that_prefix_have_the_ids_of_their_records() {
        let strings = b"\0int\0bpf_iter_tcp\0tcp_init\0";
        let records: [u32; 10] = [
            1,
            1 << 24,
            4,
            32, // int
            5,
            12 << 24,
            1, // bpf_iter_tcp
            18,
            12 << 24,
            1, // tcp_init
        ];
        let header = [0xeb9f | 1 << 16, 24, 0, 40, 40, strings.len() as u32];
        let words = header.iter().chain(&records).flat_map(|word| word.to_ne_bytes());
        let btf: Vec<u8> = words.chain(strings.iter().copied()).collect();
        let found = functions_in(&btf, "bpf_iter_").unwrap();
        assert_eq!(found, HashMap::from([(2, "bpf_iter_tcp".to_owned())]));
        assert_eq!(functions_in(&btf[..60], ""), None);
    }
}
