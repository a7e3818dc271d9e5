//! Reads as much of an ELF file as tells whether it runs anywhere: its machine,
//! and whether it needs anything to be loaded with it. Offsets in bytes, from
//! the System V ABI, for 64-bit little-endian files.

use anyhow::{Context as _, Result, ensure};

/// `PT_INTERP`: the file names a dynamic loader.
const INTERPRETER: u32 = 3;
/// `SHT_SYMTAB`: the file is not stripped.
const SYMBOLS: u32 = 2;

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
    pub fn parse(file: &[u8]) -> Result<Self> {
        ensure!(file.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
        let arch = match half(file, 18)? {
            62 => "x86_64",
            183 => "aarch64",
            _ => "",
        };
        let segments = table(file, 32, 54)?;
        let sections = table(file, 40, 58)?;
        // In a segment's header the type comes first, in a section's the name.
        let is_static = !any(file, &segments, 0, INTERPRETER)?;
        let is_stripped = !any(file, &sections, 4, SYMBOLS)?;
        Ok(Self { arch, is_static, is_stripped })
    }
}

/// Returns the offsets of the headers in a table: where it is is told at `place`, how
/// large each header is and how many there are at `sizes`.
fn table(file: &[u8], place: usize, sizes: usize) -> Result<Vec<usize>> {
    let start = usize::try_from(long(file, place)?)?;
    let (size, count) = (usize::from(half(file, sizes)?), usize::from(half(file, sizes + 2)?));
    Ok((0..count).map(|header| start.saturating_add(header * size)).collect())
}

fn any(file: &[u8], headers: &[usize], place: usize, kind: u32) -> Result<bool> {
    for header in headers {
        if u32::from_le_bytes(bytes(file, header.saturating_add(place))?) == kind {
            return Ok(true);
        }
    }
    Ok(false)
}

fn half(file: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(bytes(file, at)?))
}

fn long(file: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes(file, at)?))
}

fn bytes<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N]> {
    file.get(at..)
        .and_then(|rest| rest.first_chunk().copied())
        .with_context(|| format!("the file ends before byte {at}"))
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
