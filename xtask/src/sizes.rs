//! Sizes tell what takes the room in a program: they are read from the map that the
//! linker writes beside it, as the program itself has no symbols.
//!
//! Code is counted for the crate that its function is named after. What a generic
//! function of the standard library is made into for another crate is the standard
//! library's here.

use std::{collections::BTreeMap, fmt};

/// So many crates are shown by name.
const SHOWN: usize = 25;

/// These sections are in memory only, or hold what is stripped.
const NOT_IN_FILE: [&str; 3] = [".bss", ".tbss", ".relro_padding"];

/// Bytes by section, and those of code by crate; the largest first.
#[derive(Debug, PartialEq, Eq)]
pub struct Sizes {
    sections: Vec<(String, u64)>,
    crates: Vec<(String, u64)>,
}

impl Sizes {
    /// Reads a map of LLVM's linker: lines of a section, then of the parts of files in it,
    /// then of the symbols in each, told apart by the column that the name begins in.
    pub fn parse(map: &str) -> Self {
        let mut lines = map.lines();
        let header = lines.next().unwrap_or_default();
        let (out, symbol) = (header.find("Out"), header.find("Symbol"));
        let (Some(out), Some(symbol)) = (out, symbol) else {
            return Self { sections: Vec::new(), crates: Vec::new() };
        };
        let mut sections = Vec::new();
        let mut crates = BTreeMap::<&str, u64>::new();
        let mut is_code = false;
        for line in lines {
            let (Some(numbers), Some(name)) = (line.get(..out), line.get(out..)) else { continue };
            let size = numbers.split_whitespace().nth(2);
            let Some(size) = size.and_then(|size| u64::from_str_radix(size, 16).ok()) else {
                continue;
            };
            let column = out + (name.len() - name.trim_start().len());
            if column == out {
                is_code = name == ".text";
                // Not what a linker script assigns.
                if name.starts_with('.') && !NOT_IN_FILE.contains(&name) && size > 0 {
                    sections.push((name.to_owned(), size));
                }
            } else if column == symbol && is_code {
                *crates.entry(crate_of(name.trim_start())).or_default() += size;
            }
        }
        let mut crates: Vec<_> =
            crates.into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
        for sizes in [&mut sections, &mut crates] {
            sizes.retain(|(_, size)| *size > 0);
            sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        }
        Self { sections, crates }
    }
}

/// Returns the crate that a function is named after, as far as the linker has made its
/// name readable.
fn crate_of(function: &str) -> &str {
    const NONE: &str = "C and assembly";
    // What frees a value is named after the standard library alone.
    let freed = "core::ptr::drop_in_place";
    let name =
        function.strip_prefix(freed).filter(|rest| rest.contains("::") || rest.contains(".."));
    let mut name = name.unwrap_or(function);
    if !name.contains("::") && !name.contains("..") {
        return NONE;
    }
    // `<&mut alloc::vec::Vec<T> as core::fmt::Debug>::fmt`, or with `$LT$` for `<`.
    let marks = ["_$", "$LT$", "$RF$", "$BP$", "$u5b$", "$LP$", "$u20$", "<", "&", "*", "[", "("];
    let words = ["mut ", "mut$u20$", "const ", "const$u20$", "dyn ", "dyn$u20$", "impl "];
    loop {
        let begun = marks.iter().chain(&words).find_map(|begin| match *begin {
            // The mark that follows it stays.
            "_$" => name.strip_prefix('_').filter(|rest| rest.starts_with('$')),
            begin => name.strip_prefix(begin),
        });
        match begun {
            Some(rest) => name = rest,
            None => break,
        }
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = name.find(|c| !is_of_name(c)).unwrap_or(name.len());
    let (first, rest) = name.split_at(end);
    if rest.starts_with("::") || rest.starts_with("..") {
        return first;
    }
    // A type of no crate: what counts is whose trait it has.
    let of_trait = [" as ", "$u20$as$u20$"].iter().find_map(|word| Some(rest.split_once(word)?.1));
    of_trait.map_or("core", |of_trait| crate_of(of_trait))
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, bytes: u64| {
            writeln!(f, "  {name:<28}{bytes:>10}")
        };
        writeln!(f, "sections (bytes):")?;
        self.sections.iter().try_for_each(|(name, bytes)| line(f, name, *bytes))?;
        writeln!(f, "code by crate (bytes):")?;
        let (shown, others) = self.crates.split_at(self.crates.len().min(SHOWN));
        shown.iter().try_for_each(|(name, bytes)| line(f, name, *bytes))?;
        let rest = others.iter().map(|(_, bytes)| bytes).sum();
        line(f, &format!("{} others", others.len()), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sizes, crate_of};

    #[test]
    fn a_map_tells_sections_and_crates() {
        let map = "             VMA              LMA     Size Align Out     In      Symbol
             270              270       18     8 .dynsym
             270              270       18     8         <internal>:(.dynsym)
           186e0            186e0      52e    16 .text
           186e0            186e0      140    16         wad.wad.f1-cgu.0.rcgu.o:(.text._ZN)
           186e0            186e0      140     1                 wad::main::h5bea5e9afb91cb8d
           18820            18820       10    16         /lib/libc.a(memcpy.lo):(.text)
           18820            18820       10     1                 memcpy
           18830            18830       20     1                 wad::run::h5bea5e9afb91cb8e
           70a60            70a60     1808    32 .bss
           70a60            70a60       18     1                 wad::STATE
               0                0        0     1 __bss_start = .
";
        let pairs = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
            pairs.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
        };
        let sizes = Sizes::parse(map);
        assert_eq!(sizes.sections, pairs(&[(".text", 0x52e), (".dynsym", 0x18)]));
        assert_eq!(sizes.crates, pairs(&[("wad", 0x160), ("C and assembly", 0x10)]));
        let shown = sizes.to_string();
        assert!(shown.contains("\n  wad                                352\n"), "{shown}");
        assert_eq!(Sizes::parse("something else\n").sections, []);
    }

    #[test]
    fn functions_are_counted_for_their_crates() {
        for (function, expected) in [
            ("hashbrown::raw::RawTable$LT$T$C$A$GT$::reserve_rehash::h9a", "hashbrown"),
            (
                "_$LT$hashbrown..raw..RawTable$LT$T$GT$$u20$as$u20$core..ops..Drop$GT$::drop::h5",
                "hashbrown",
            ),
            ("_$LT$$RF$mut$u20$toml..Value$u20$as$u20$core..fmt..Debug$GT$::fmt::h1", "toml"),
            ("_$LT$T$u20$as$u20$tower..util..Call$GT$::call::h1", "tower"),
            ("_$LT$u8$u20$as$u20$core..fmt..Debug$GT$::fmt::h1", "core"),
            ("core::ptr::drop_in_place$LT$wad..config..Config$GT$::h1", "wad"),
            ("core::ptr::drop_in_place$LT$$u5b$aya..maps..Map$u5d$$GT$::h1", "aya"),
            ("core::fmt::write::h1", "core"),
            ("<hashbrown::raw::Fallibility>::capacity_overflow", "hashbrown"),
            ("<std::io::Stdout as std::io::Write>::flush", "std"),
            ("<&mut alloc::vec::Vec<u8> as core::fmt::Debug>::fmt", "alloc"),
            ("std::rt::lang_start::<()>::{closure#0}", "std"),
            ("memcpy", "C and assembly"),
        ] {
            assert_eq!(crate_of(function), expected, "{function}");
        }
    }
}
