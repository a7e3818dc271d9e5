//! Scans go over all flows, or all paths, at once: the agent runs them with BPF_PROG_TEST_RUN.
//!
//! A scan goes over a map, finds each socket by the address that its flow's state has, and reads
//! it where it is, in whatever network namespace. It takes no lock of a socket, so that nobody can
//! hold it up: a number may be one of a moment later than the next. A flow that begins or ends
//! meanwhile may be missed, or be met twice (`bpf_for_each_hash_elem()` follows an element into
//! the place that it is given next).

use wad_common::scan::Header;
use wad_ebpf::maps::OUTPUT;

/// Makes the program of a scan: its name, and the maps that it goes over, one after the other, each
/// with a function that is called for every element.
///
/// aya-obj knows no programs of type `syscall`. They are in a section that it parses like any
/// other, and the agent loads them itself.
macro_rules! scan {
    ($name:literal, $(over $map:ident $visit:ident($key:ident: $of:ty, $value:ident: $to:ty) $body:block)+) => {
        const _: () = {
            #[unsafe(export_name = $name)]
            #[unsafe(link_section = "freplace/scan")]
            extern "C" fn scan(_ctx: *mut core::ffi::c_void) -> u32 {
                $(
                    let callback = $visit as *const () as *mut core::ffi::c_void;
                    let map = wad_ebpf::maps::address(&wad_ebpf::maps::$map);
                    let none = core::ptr::null_mut();
                    // SAFETY: the function takes what the kernel calls it with for this map.
                    unsafe {
                        aya_ebpf::helpers::generated::bpf_for_each_map_elem(map, callback, none, 0)
                    };
                )+
                0
            }

            $(
                extern "C" fn $visit(
                    _map: *mut core::ffi::c_void,
                    key: *const $of,
                    value: *mut $to,
                    _ctx: *mut core::ffi::c_void,
                ) -> u64 {
                    // SAFETY: an element of the map, whose memory stays an element of it for as
                    // long as this run. Others may change it meanwhile, each field by itself:
                    // what is made of it holds until the next scan.
                    let ($key, $value) = unsafe { (key.read_volatile(), &mut *value) };
                    $body
                    // Go on with the next.
                    0
                }
            )+
        };
    };
}

pub(crate) use scan;

/// Returns the number of this scan.
#[inline(always)]
pub fn number() -> u64 {
    header().map_or(0, |header| header.scan)
}

/// Returns room for the next record, of as many bytes as the agent gave to the elements of the
/// output; None where there is none left. It counts when it is [`keep`]t.
#[inline(always)]
pub fn room<T>() -> Option<*mut T> {
    let header = header()?;
    // The header is the first.
    let room = OUTPUT.get_ptr_mut(header.written + 1);
    if room.is_none() {
        header.missing += 1;
    }
    room.map(<*mut _>::cast)
}

/// Keeps the record that was written last.
#[inline(always)]
pub fn keep() {
    if let Some(header) = header() {
        header.written += 1;
    }
}

#[inline(always)]
fn header<'a>() -> Option<&'a mut Header> {
    let header: *mut Header = OUTPUT.get_ptr_mut(0)?.cast();
    // SAFETY: all elements are large enough for it, and one scan at a time has this output.
    Some(unsafe { &mut *header })
}
