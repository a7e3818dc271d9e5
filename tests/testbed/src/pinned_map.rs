//! A map of a running agent, opened by its pin: how many elements it has, and elements that no
//! program of the agent's has made.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use crate::bpf::command;

// include/uapi/linux/bpf.h
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;

/// A map whose keys are 64 bits.
pub struct PinnedMap {
    map: OwnedFd,
    value_bytes: u32,
    max_entries: u32,
}

/// These are the fields of `union bpf_attr` for commands on an element.
#[repr(C)]
struct Element {
    map: u32,
    _padding: u32,
    key_at: u64,
    value_or_next_key_at: u64,
    flags: u64,
}

/// These are the fields of `union bpf_attr` for BPF_OBJ_GET and BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
struct Object {
    words: [u32; 2],
    at: u64,
}

/// Returns the pin of a map with that name below a folder, in whatever folder of a build.
///
/// # Errors
/// Where it is not there.
pub fn pin(below: &Path, name: &str) -> io::Result<PathBuf> {
    let folders = std::fs::read_dir(below)?;
    let pins = folders.filter_map(|folder| Some(folder.ok()?.path().join(name)));
    let none = || io::Error::new(io::ErrorKind::NotFound, format!("no pin of {name}"));
    std::iter::once(below.join(name)).chain(pins).find(|pin| pin.exists()).ok_or_else(none)
}

impl PinnedMap {
    /// Opens the map that is pinned there.
    ///
    /// # Errors
    /// Without root, or where nothing is pinned.
    pub fn open(pin: &Path) -> io::Result<Self> {
        /// Where the sizes are in `struct bpf_map_info`: type, id, key, value, entries.
        const INFO_WORDS: usize = 20;
        let path = CString::new(pin.as_os_str().as_bytes())?;
        // The path comes first here.
        let map = command(BPF_OBJ_GET, &mut [path.as_ptr() as u64, 0])?;
        // SAFETY: a descriptor that was just made and is nobody else's.
        let map = unsafe { OwnedFd::from_raw_fd(map) };
        let mut info = [0_u32; INFO_WORDS];
        let words = [map.as_raw_fd().cast_unsigned(), size_of_val(&info) as u32];
        command(BPF_OBJ_GET_INFO_BY_FD, &mut Object { words, at: info.as_mut_ptr() as u64 })?;
        Ok(Self { map, value_bytes: info[3], max_entries: info[4] })
    }

    /// Elements that the map has room for.
    #[must_use]
    pub const fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn count(&self) -> io::Result<usize> {
        let (mut key, mut next, mut count) = ([0_u64], 0_u64, 0);
        // Without a key it is the first one.
        let mut element = self.element(0, &raw mut next as u64);
        loop {
            match command(BPF_MAP_GET_NEXT_KEY, &mut element) {
                Ok(_) => count += 1,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(count),
                Err(error) => return Err(error),
            }
            key[0] = next;
            element.key_at = key.as_ptr() as u64;
        }
    }

    /// Makes an element of zeros.
    ///
    /// # Errors
    /// When the map is full.
    pub fn insert(&self, key: u64) -> io::Result<()> {
        let value = vec![0_u8; self.value_bytes as usize];
        let mut element = self.element(&raw const key as u64, value.as_ptr() as u64);
        command(BPF_MAP_UPDATE_ELEM, &mut element).map(drop)
    }

    /// Removes an element.
    ///
    /// # Errors
    /// When it is not there.
    pub fn remove(&self, key: u64) -> io::Result<()> {
        command(BPF_MAP_DELETE_ELEM, &mut self.element(&raw const key as u64, 0)).map(drop)
    }

    fn element(&self, key_at: u64, value_or_next_key_at: u64) -> Element {
        let map = self.map.as_raw_fd().cast_unsigned();
        Element { map, _padding: 0, key_at, value_or_next_key_at, flags: 0 }
    }
}
