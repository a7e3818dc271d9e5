//! Reads as much of an ELF file as tells whether it runs anywhere: its machine,
//! and whether it needs anything to be loaded with it.

use anyhow::Result;
use object::{
    Architecture, LittleEndian, Object as _,
    elf::{PT_INTERP, SHT_SYMTAB},
    read::elf::{ElfFile64, ProgramHeader as _, SectionHeader as _},
};

/// Holds what is known of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Elf {
    /// The machine, as `CARGO_CFG_TARGET_ARCH` names it; empty for another.
    pub arch: &'static str,
    /// The kernel alone can start it.
    pub is_static: bool,
    /// The file has no symbols.
    pub is_stripped: bool,
}

impl Elf {
    /// Reads a file for 64 bits, little-endian.
    pub fn parse(file: &[u8]) -> Result<Self> {
        let file = ElfFile64::<LittleEndian>::parse(file)?;
        let arch = match file.architecture() {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            _ => "",
        };
        let mut segments = file.elf_program_headers().iter();
        let mut sections = file.elf_section_table().iter();
        // One names a dynamic loader, the other has the symbols.
        let is_static = !segments.any(|segment| segment.p_type(LittleEndian) == PT_INTERP);
        let is_stripped = !sections.any(|section| section.sh_type(LittleEndian) == SHT_SYMTAB);
        Ok(Self { arch, is_static, is_stripped })
    }
}

#[cfg(test)]
mod tests {
    use super::Elf;

    #[test]
    fn this_program_is_an_elf_file() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&file).unwrap();
        assert_eq!(elf.arch, std::env::consts::ARCH);
        assert!(!elf.is_stripped);
        assert_eq!(elf.is_static, cfg!(target_feature = "crt-static"));
    }

    #[test]
    fn other_files_are_refused() {
        Elf::parse(b"").unwrap_err();
        Elf::parse(b"#!/bin/sh\n").unwrap_err();
        Elf::parse(b"\x7fELF\x02\x01").unwrap_err();
    }
}
