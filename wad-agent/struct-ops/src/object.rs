//! An object file with struct_ops programs, parsed and linked against maps.
//!
//! aya-obj refuses the section name `struct_ops/MEMBER`, so the programs sit in
//! `freplace/MEMBER`: parsed, relocated and linked like any other.

use std::{
    collections::{HashMap, HashSet},
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use aya_obj::{EbpfSectionKind, Object, generated::bpf_insn};
use thiserror::Error;

use super::sys;

/// Says why an object could not be made ready for loading.
#[derive(Debug, Error)]
pub enum ObjectError {
    #[error("the BPF object is malformed")]
    Parse(#[from] aya_obj::ParseError),
    #[error("cannot link the BPF object's programs")]
    Relocate(#[from] aya_obj::relocation::EbpfRelocationError),
    #[error("cannot make the BPF object's read-only data")]
    Rodata(#[source] io::Error),
    #[error("the BPF object has no program `{name}`")]
    NoProgram { name: String },
}

/// A parsed object whose programs are ready for loading.
pub struct LinkedObject {
    object: Object,
    // The programs refer to it by number until they are loaded.
    _rodata: Vec<OwnedFd>,
}

/// No descriptor has this number.
const NO_MAP: RawFd = -1;

impl LinkedObject {
    /// Parses `data`, sets the read-only `globals` by name, and links the
    /// programs against `maps`, by name. Those that use another one cannot be loaded: the
    /// kernel refuses them (EBADF).
    pub fn link(
        data: &[u8],
        globals: HashMap<&str, (&[u8], bool)>,
        maps: &HashMap<&str, BorrowedFd<'_>>,
    ) -> Result<Self, ObjectError> {
        let mut object = Object::parse(data)?;
        object.patch_map_data(globals)?;

        let mut rodata = Vec::new();
        let mut fds = Vec::new();
        let own_maps = std::mem::take(&mut object.maps);
        for (name, map) in &own_maps {
            let fd = if map.section_kind() == EbpfSectionKind::Rodata {
                let fd = sys::create_rodata(map.data()).map_err(ObjectError::Rodata)?;
                rodata.push(fd);
                rodata[rodata.len() - 1].as_raw_fd()
            } else {
                maps.get(name.as_str()).map_or(NO_MAP, AsRawFd::as_raw_fd)
            };
            fds.push((name.as_str(), fd, map));
        }
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        object.relocate_maps(fds.into_iter(), &text)?;
        object.relocate_calls(&text)?;
        Ok(Self { object, _rodata: rodata })
    }

    /// The instructions of a program.
    pub fn instructions(&self, name: &str) -> Result<&[bpf_insn], ObjectError> {
        let program = self.object.programs.get(name);
        program
            .and_then(|program| self.object.functions.get(&program.function_key()))
            .map(|function| function.instructions.as_slice())
            .ok_or_else(|| ObjectError::NoProgram { name: name.to_owned() })
    }
}
