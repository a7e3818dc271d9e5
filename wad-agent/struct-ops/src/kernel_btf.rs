//! The running kernel's type information, as far as struct_ops needs it: the id
//! of a struct, and where its members are.
//!
//! Format: `include/uapi/linux/btf.h`, Documentation/bpf/btf.rst.

use std::{collections::HashMap, fs, io};

use thiserror::Error;

const PATH: &str = "/sys/kernel/btf/vmlinux";

/// Says why the kernel's types could not be read.
#[derive(Debug, Error)]
pub enum BtfError {
    #[error(
        "cannot read the kernel's type information (BTF) at {PATH}: {error}; \
         wad needs a kernel built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    Read { error: io::Error },
    #[error("the kernel's type information at {PATH} is malformed at byte {offset}")]
    Malformed { offset: usize },
    #[error("this kernel has no struct `{name}` in its type information")]
    NoStruct { name: String },
    #[error("this kernel has no `{name}` in its type information")]
    NoType { name: String },
    #[error("this kernel's struct `{of}` has no member `{member}`")]
    NoMember { of: String, member: String },
    #[error("member `{member}` of this kernel's struct `{of}` does not point to a function")]
    NoFunction { of: String, member: String },
    #[error("`{path}` of this kernel's struct `{of}` is no number")]
    NoNumber { of: String, path: String },
}

/// A number within a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Offset from the start of the struct.
    pub offset_bits: u32,
    /// 64 at most.
    pub size_bits: u32,
    pub is_signed: bool,
}

impl Number {
    /// Whether it has bytes of its own, as many as a processor loads at once.
    pub const fn is_whole(self) -> bool {
        self.offset_bits.is_multiple_of(8) && matches!(self.size_bits, 8 | 16 | 32 | 64)
    }
}

/// A struct of the kernel.
#[derive(Clone, Debug)]
pub struct Struct {
    name: String,
    /// The struct's id among the kernel's types.
    pub type_id: u32,
    /// The struct's size.
    pub size_bytes: u32,
    members: Vec<Member>,
}

/// A member of a struct.
#[derive(Clone, Debug)]
pub struct Member {
    name: String,
    type_id: u32,
    /// The member's place among the members.
    pub index: u32,
    /// Offset from the start of the struct.
    pub offset_bits: u32,
    /// Size of a bit field; else 0.
    field_bits: u32,
}

impl Member {
    /// Returns the offset from the start of the struct; of a bit field, the byte that
    /// holds it.
    pub const fn offset_bytes(&self) -> u32 {
        self.offset_bits / 8
    }

    /// Returns the mask of a bit field of one bit, within that byte.
    pub const fn bit_mask(&self) -> u32 {
        if cfg!(target_endian = "little") {
            1 << (self.offset_bits % 8)
        } else {
            0x80 >> (self.offset_bits % 8)
        }
    }
}

impl Struct {
    /// The member of that name.
    pub fn member(&self, name: &str) -> Result<&Member, BtfError> {
        self.members
            .iter()
            .find(|member| member.name == name)
            .ok_or_else(|| BtfError::NoMember { of: self.name.clone(), member: name.to_owned() })
    }
}

/// The kernel's types.
pub struct KernelBtf {
    data: Vec<u8>,
    strings: usize,
    /// Where each type's record starts; type ids count from 1.
    records: Vec<usize>,
    structs: HashMap<String, u32>,
}

/// Holds what an array's type says.
struct Array {
    /// Type of what it holds.
    of: u32,
    length: u32,
}

const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNCTION: u32 = 12;
const KIND_FUNCTION_PROTOTYPE: u32 = 13;
const KIND_ENUM64: u32 = 19;
const KIND_MODIFIERS: [u32; 5] = [KIND_TYPEDEF, 9, 10, 11, 18]; // volatile, const, restrict, type tag

impl KernelBtf {
    /// Reads the running kernel's types.
    pub fn read() -> Result<Self, BtfError> {
        let data = fs::read(PATH).map_err(|error| BtfError::Read { error })?;
        Self::parse(data)
    }

    /// Indexes type information of this machine's byte order.
    pub fn parse(data: Vec<u8>) -> Result<Self, BtfError> {
        let word = |offset| read_u32(&data, offset);
        let header_len = word(4)? as usize;
        let types = header_len + word(8)? as usize;
        let types_end = types + word(12)? as usize;
        let strings = header_len + word(16)? as usize;

        let mut records = Vec::new();
        let mut structs = HashMap::new();
        let mut at = types;
        while at < types_end {
            let info = word(at + 4)?;
            let (kind, vlen) = ((info >> 24) & 0x1f, info & 0xffff);
            records.push(at);
            if kind == KIND_STRUCT {
                let name = string(&data, strings + word(at)? as usize)?;
                structs.entry(name.to_owned()).or_insert(records.len() as u32);
            }
            at += record_bytes(kind, vlen).ok_or(BtfError::Malformed { offset: at })?;
        }
        Ok(Self { data, strings, records, structs })
    }

    /// The struct of that name, members of unnamed members included.
    pub fn structure(&self, name: &str) -> Result<Struct, BtfError> {
        let type_id =
            *self.structs.get(name).ok_or_else(|| BtfError::NoStruct { name: name.to_owned() })?;
        self.structure_by_id(type_id)
    }

    /// Whether the kernel has a function of that name. One that was inlined
    /// everywhere, or that no tracer may touch, can be missing here.
    pub fn has_function(&self, name: &str) -> bool {
        self.find(KIND_FUNCTION, name).is_some()
    }

    /// The id of the function of that name.
    pub fn function_id(&self, name: &str) -> Result<u32, BtfError> {
        let missing = || BtfError::NoType { name: name.to_owned() };
        self.find(KIND_FUNCTION, name).ok_or_else(missing)
    }

    /// Returns how many parameters the function of that name takes.
    pub fn function_parameters(&self, name: &str) -> Result<u32, BtfError> {
        let function = self.record(self.function_id(name)?)?;
        let prototype = self.record(read_u32(&self.data, function + 8)?)?;
        Ok(read_u32(&self.data, prototype + 4)? & 0xffff)
    }

    /// The id of the typedef of that name.
    pub fn typedef_id(&self, name: &str) -> Result<u32, BtfError> {
        let missing = || BtfError::NoType { name: name.to_owned() };
        self.find(KIND_TYPEDEF, name).ok_or_else(missing)
    }

    /// Whether anything has that name: a type, a member, an enumerator.
    pub fn has_name(&self, name: &str) -> bool {
        let mut names = self.data[self.strings..].split(|&byte| byte == 0);
        names.any(|found| found == name.as_bytes())
    }

    fn find(&self, kind: u32, name: &str) -> Option<u32> {
        let at = self.records.iter().position(|&at| {
            let word = |offset| read_u32(&self.data, at + offset);
            word(4).is_ok_and(|info| (info >> 24) & 0x1f == kind)
                && word(0)
                    .and_then(|offset| string(&self.data, self.strings + offset as usize))
                    .is_ok_and(|found| found == name)
        });
        // Type ids count from 1.
        at.map(|index| index as u32 + 1)
    }

    /// Offset in bytes of a member reached through members, as
    /// `inet_conn.icsk_ca_priv`.
    pub fn offset_bytes(&self, of: &str, path: &str) -> Result<u32, BtfError> {
        self.offset_bits(of, path).map(|bits| bits / 8)
    }

    /// Returns a member's offset in bits, for a bit field.
    pub fn offset_bits(&self, of: &str, path: &str) -> Result<u32, BtfError> {
        let mut within = self.structure(of)?;
        let mut offset = 0;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let member = within.member(name)?.clone();
            offset += member.offset_bits;
            if names.peek().is_some() {
                within = self.structure_of(&member)?;
            }
        }
        Ok(offset)
    }

    /// The number that is reached through members and places of arrays, as
    /// `rtt_min.s[0].v`.
    pub fn number(&self, of: &str, path: &str) -> Result<Number, BtfError> {
        let no_number = || BtfError::NoNumber { of: of.to_owned(), path: path.to_owned() };
        let mut type_id = self.structure(of)?.type_id;
        let (mut offset_bits, mut field_bits) = (0, 0);
        for step in path.split('.') {
            let (name, places) =
                step.split_once('[').map_or((step, ""), |(name, rest)| (name, rest));
            let within = self.structure_by_id(self.unmodified(type_id)?)?;
            let member = within.member(name)?;
            offset_bits += member.offset_bits;
            (type_id, field_bits) = (member.type_id, member.field_bits);
            for place in places.split_terminator(']') {
                let place: u32 = place.trim_start_matches('[').parse().map_err(|_| no_number())?;
                let array = self.array(type_id)?.filter(|array| place < array.length);
                let array = array.ok_or_else(no_number)?;
                offset_bits += place * self.size_bits(array.of)?.ok_or_else(no_number)?;
                type_id = array.of;
            }
        }
        let (size_bits, is_signed) = self.scalar(type_id)?.ok_or_else(no_number)?;
        let size_bits = if field_bits == 0 { size_bits } else { field_bits };
        if size_bits > 64 {
            Err(no_number())
        } else {
            Ok(Number { offset_bits, size_bits, is_signed })
        }
    }

    /// Returns what [`KernelBtf::number`] takes for a struct, without the places of
    /// arrays after the first.
    pub fn numbers(&self, of: &str) -> Result<Vec<String>, BtfError> {
        let mut paths = Vec::new();
        self.collect_numbers(self.structure(of)?.type_id, "", &mut paths)?;
        Ok(paths)
    }

    fn collect_numbers(
        &self,
        type_id: u32,
        path: &str,
        paths: &mut Vec<String>,
    ) -> Result<(), BtfError> {
        if let Some(array) = self.array(type_id)? {
            if array.length > 0 {
                self.collect_numbers(array.of, &format!("{path}[0]"), paths)?;
            }
        } else if self.scalar(type_id)?.is_some() {
            paths.push(path.to_owned());
        } else {
            // Of anything that has no members there are none.
            for member in self.structure_by_id(self.unmodified(type_id)?)?.members {
                let between = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{between}{}", member.name);
                self.collect_numbers(member.type_id, &path, paths)?;
            }
        }
        Ok(())
    }

    /// Size and sign of a type, if it is one of a number.
    fn scalar(&self, type_id: u32) -> Result<Option<(u32, bool)>, BtfError> {
        let at = self.record(self.unmodified(type_id)?)?;
        let (info, size_bytes) = (read_u32(&self.data, at + 4)?, read_u32(&self.data, at + 8)?);
        Ok(match (info >> 24) & 0x1f {
            // The lowest bit of the encoding, which is in the upper byte.
            KIND_INT => Some((size_bytes * 8, (read_u32(&self.data, at + 12)? >> 24) & 1 == 1)),
            // The flag that is a size of bit fields elsewhere.
            KIND_ENUM | KIND_ENUM64 => Some((size_bytes * 8, info >> 31 == 1)),
            _ => None,
        })
    }

    fn array(&self, type_id: u32) -> Result<Option<Array>, BtfError> {
        let at = self.record(self.unmodified(type_id)?)?;
        if (read_u32(&self.data, at + 4)? >> 24) & 0x1f != KIND_ARRAY {
            return Ok(None);
        }
        let (of, length) = (read_u32(&self.data, at + 12)?, read_u32(&self.data, at + 20)?);
        Ok(Some(Array { of, length }))
    }

    /// Returns the size of a number or a struct: arrays of others have no numbers.
    fn size_bits(&self, type_id: u32) -> Result<Option<u32>, BtfError> {
        let at = self.record(self.unmodified(type_id)?)?;
        let kind = (read_u32(&self.data, at + 4)? >> 24) & 0x1f;
        let has_size = [KIND_INT, KIND_ENUM, KIND_ENUM64, KIND_STRUCT, KIND_UNION].contains(&kind);
        has_size
            .then(|| read_u32(&self.data, at + 8))
            .transpose()
            .map(|size| size.map(|size| size * 8))
    }

    /// Number of parameters of the function that a member points to.
    pub fn parameters(&self, of: &str, member: &str) -> Result<u32, BtfError> {
        let member_type = self.structure(of)?.member(member)?.type_id;
        let at = self.record(self.unmodified(member_type)?)?;
        let function = self.record(self.unmodified(read_u32(&self.data, at + 8)?)?)?;
        let info = read_u32(&self.data, function + 4)?;
        if (info >> 24) & 0x1f == KIND_FUNCTION_PROTOTYPE {
            Ok(info & 0xffff)
        } else {
            Err(BtfError::NoFunction { of: of.to_owned(), member: member.to_owned() })
        }
    }

    fn structure_of(&self, member: &Member) -> Result<Struct, BtfError> {
        self.structure_by_id(self.unmodified(member.type_id)?)
    }

    /// Returns a struct, one without a name, too.
    fn structure_by_id(&self, type_id: u32) -> Result<Struct, BtfError> {
        let at = self.record(type_id)?;
        let name = string(&self.data, self.strings + read_u32(&self.data, at)? as usize)?;
        let mut members = Vec::new();
        self.collect(type_id, 0, &mut members)?;
        let size_bytes = read_u32(&self.data, at + 8)?;
        Ok(Struct { name: name.to_owned(), type_id, size_bytes, members })
    }

    /// The type behind typedefs and qualifiers.
    fn unmodified(&self, mut type_id: u32) -> Result<u32, BtfError> {
        loop {
            let at = self.record(type_id)?;
            let kind = (read_u32(&self.data, at + 4)? >> 24) & 0x1f;
            if !KIND_MODIFIERS.contains(&kind) {
                return Ok(type_id);
            }
            type_id = read_u32(&self.data, at + 8)?;
        }
    }

    fn collect(
        &self,
        type_id: u32,
        base_bits: u32,
        members: &mut Vec<Member>,
    ) -> Result<(), BtfError> {
        let at = self.record(type_id)?;
        let info = read_u32(&self.data, at + 4)?;
        let (kind, vlen, has_bit_fields) = ((info >> 24) & 0x1f, info & 0xffff, info >> 31 == 1);
        if kind != KIND_STRUCT && kind != KIND_UNION {
            return Ok(());
        }
        for index in 0..vlen {
            let member = at + 12 + index as usize * 12;
            let name = string(&self.data, self.strings + read_u32(&self.data, member)? as usize)?;
            let type_id = read_u32(&self.data, member + 4)?;
            let offset = read_u32(&self.data, member + 8)?;
            // Where the struct has bit fields, the upper byte is their size.
            let (offset, field_bits) =
                if has_bit_fields { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
            let offset_bits = base_bits + offset;
            if name.is_empty() {
                self.collect(self.unmodified(type_id)?, offset_bits, members)?;
            } else {
                let name = name.to_owned();
                members.push(Member { name, type_id, index, offset_bits, field_bits });
            }
        }
        Ok(())
    }

    fn record(&self, type_id: u32) -> Result<usize, BtfError> {
        (type_id as usize)
            .checked_sub(1)
            .and_then(|index| self.records.get(index))
            .copied()
            .ok_or(BtfError::Malformed { offset: 0 })
    }
}

/// Length of a type's record: a header of 12 bytes, and what its kind adds.
const fn record_bytes(kind: u32, vlen: u32) -> Option<usize> {
    let vlen = vlen as usize;
    let added = match kind {
        KIND_INT | 14 | 17 => 4, // 14: var, 17: declaration tag
        KIND_ARRAY => 12,
        KIND_STRUCT | KIND_UNION => vlen * 12,
        KIND_ENUM | KIND_FUNCTION_PROTOTYPE => vlen * 8,
        15 | KIND_ENUM64 => vlen * 12, // 15: data section
        2 | 7..=12 | 16 | 18 => 0,     // pointers, modifiers, functions, floats
        _ => return None,
    };
    Some(12 + added)
}

fn read_u32(data: &[u8], offset: usize) -> Result<u32, BtfError> {
    data.get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_ne_bytes)
        .ok_or(BtfError::Malformed { offset })
}

fn string(data: &[u8], offset: usize) -> Result<&str, BtfError> {
    let rest = data.get(offset..).ok_or(BtfError::Malformed { offset })?;
    let end = rest.iter().position(|&byte| byte == 0).ok_or(BtfError::Malformed { offset })?;
    std::str::from_utf8(&rest[..end]).map_err(|_| BtfError::Malformed { offset })
}
