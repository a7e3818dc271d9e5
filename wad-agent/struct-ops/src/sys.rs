//! The bpf(2) commands that aya does not offer, each as one function.

use std::{
    collections::BTreeSet,
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_link_info, bpf_map_type, bpf_prog_info,
    bpf_prog_type,
};

const BPF_F_SLEEPABLE: u32 = 1 << 4;
const BPF_F_RDONLY_PROG: u32 = 1 << 7;
const BPF_F_LINK: u32 = 1 << 13;
const BPF_STRUCT_OPS: u32 = 44;

// Instructions: BPF_JMP | BPF_CALL and BPF_LD | BPF_IMM | BPF_DW, and what is in the place of
// their source register.
const BPF_JMP_CALL: u8 = 0x85;
const BPF_LD_IMM64: u8 = 0x18;
const BPF_PSEUDO_CALL: u8 = 1;
const BPF_PSEUDO_KFUNC_CALL: u8 = 2;
const BPF_PSEUDO_FUNC: u8 = 4;

/// A program to be loaded.
pub struct ProgramLoad<'a> {
    pub name: &'a str,
    pub instructions: &'a [bpf_insn],
    pub program_type: bpf_prog_type,
    /// Type id of what it is for, among the kernel's types.
    pub attach_type_id: u32,
    /// The attach type: of struct_ops, which member of that struct; else a
    /// `bpf_attach_type`.
    pub attach_type: u32,
}

/// Loads a program. `log` receives what the verifier says, if it is not empty.
pub fn load_program(program: &ProgramLoad<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this command reads this member of the union.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    load.prog_type = program.program_type as u32;
    load.insns = program.instructions.as_ptr() as u64;
    load.insn_cnt = program.instructions.len() as u32;
    load.license = c"GPL".as_ptr() as u64;
    load.attach_btf_id = program.attach_type_id;
    load.expected_attach_type = program.attach_type;
    copy_name(&mut load.prog_name, program.name);
    let functions;
    if program.program_type == bpf_prog_type::BPF_PROG_TYPE_SYSCALL {
        functions = (load_minimal_btf()?, function_info(program.instructions));
        load.prog_flags = BPF_F_SLEEPABLE;
        load.prog_btf_fd = functions.0.as_raw_fd() as u32;
        load.func_info = functions.1.as_ptr() as u64;
        load.func_info_cnt = functions.1.len() as u32;
        load.func_info_rec_size = size_of::<[u32; 2]>() as u32;
    }
    if !log.is_empty() {
        load.log_level = 1;
        load.log_buf = log.as_mut_ptr() as u64;
        load.log_size = log.len() as u32;
    }
    bpf_fd(bpf_cmd::BPF_PROG_LOAD, &mut attr)
}

/// Returns what the kernel wants to know of a program's functions before one of them can be a
/// callback: where each begins, and its type (`check_btf_func()`).
fn function_info(instructions: &[bpf_insn]) -> Vec<[u32; 2]> {
    let mut starts = BTreeSet::from([0]);
    for (n, instruction) in instructions.iter().enumerate() {
        let is_call = instruction.code == BPF_JMP_CALL && instruction.src_reg() == BPF_PSEUDO_CALL;
        let is_address =
            instruction.code == BPF_LD_IMM64 && instruction.src_reg() == BPF_PSEUDO_FUNC;
        if is_call || is_address {
            starts.insert((n as i64 + 1 + i64::from(instruction.imm)) as u32);
        }
    }
    starts.into_iter().map(|start| [start, FUNCTION_TYPE]).collect()
}

/// Runs a program of type `syscall`, without arguments.
pub fn run_program(program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = zeroed();
    attr.test.prog_fd = program.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr).map(drop)
}

/// Puts a call of a kernel function in the place of each call of a helper that no kernel has.
pub fn call_kernel_function(instructions: &mut [bpf_insn], helper: i32, function_id: u32) {
    let is_call = |instruction: &&mut bpf_insn| {
        instruction.code == BPF_JMP_CALL && instruction.src_reg() == 0 && instruction.imm == helper
    };
    for instruction in instructions.iter_mut().filter(is_call) {
        instruction.set_src_reg(BPF_PSEUDO_KFUNC_CALL);
        instruction.imm = function_id as i32;
    }
}

/// Makes a one-element array that programs may only read, holding `data`, and
/// freezes it, so that the verifier takes its content for constants.
pub fn create_rodata(data: &[u8]) -> io::Result<OwnedFd> {
    let spec = MapSpec {
        name: ".rodata",
        map_type: bpf_map_type::BPF_MAP_TYPE_ARRAY,
        key_bytes: 4,
        value_bytes: data.len() as u32,
        entries: 1,
        flags: BPF_F_RDONLY_PROG,
    };
    let map = create_map(&spec, None)?;
    update_first(&map, data)?;

    let mut attr = zeroed();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_MAP_FREEZE, &mut attr)?;
    Ok(map)
}

/// A map without type information.
pub struct MapSpec {
    pub name: &'static str,
    pub map_type: bpf_map_type,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub entries: u32,
    pub flags: u32,
}

/// Makes a map; one of maps takes those that are like `inner`.
pub fn create_map(map: &MapSpec, inner: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // SAFETY: this command reads this member of the union.
    let create = unsafe { &mut attr.__bindgen_anon_1 };
    create.map_type = map.map_type as u32;
    create.key_size = map.key_bytes;
    create.value_size = map.value_bytes;
    create.max_entries = map.entries;
    create.map_flags = map.flags;
    create.inner_map_fd = inner.map_or(0, |inner| inner.as_raw_fd() as u32);
    copy_name(&mut create.map_name, map.name);
    bpf_fd(bpf_cmd::BPF_MAP_CREATE, &mut attr)
}

/// Makes the map that holds the struct of callbacks. `by_link`: a link will
/// register it (Linux 6.4); else updating its element does.
pub fn create_struct_ops(
    name: &str,
    value_type_id: u32,
    value_bytes: u32,
    by_link: bool,
) -> io::Result<OwnedFd> {
    let btf = load_minimal_btf()?;
    let mut attr = zeroed();
    // SAFETY: this command reads this member of the union.
    let create = unsafe { &mut attr.__bindgen_anon_1 };
    create.map_type = bpf_map_type::BPF_MAP_TYPE_STRUCT_OPS as u32;
    create.key_size = 4;
    create.value_size = value_bytes;
    create.max_entries = 1;
    create.map_flags = if by_link { BPF_F_LINK } else { 0 };
    create.btf_vmlinux_value_type_id = value_type_id;
    create.btf_fd = btf.as_raw_fd() as u32;
    copy_name(&mut create.map_name, name);
    bpf_fd(bpf_cmd::BPF_MAP_CREATE, &mut attr)
}

/// Writes the only element of a map.
pub fn update_first(map: &OwnedFd, value: &[u8]) -> io::Result<()> {
    let mut attr = first_of(map.as_fd());
    attr.__bindgen_anon_2.__bindgen_anon_1.value = value.as_ptr() as u64;
    bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// Reads the only element of a map. What is no map is an invalid argument.
///
/// # Safety
/// The elements of the map are no larger than `value`.
pub unsafe fn look_up_first(map: BorrowedFd<'_>, value: &mut [u8]) -> io::Result<()> {
    let mut attr = first_of(map);
    attr.__bindgen_anon_2.__bindgen_anon_1.value = value.as_mut_ptr() as u64;
    bpf(bpf_cmd::BPF_MAP_LOOKUP_ELEM, &mut attr).map(drop)
}

/// Deletes the only element of a map; for struct_ops without a link, this
/// unregisters it.
pub fn delete_first(map: &OwnedFd) -> io::Result<()> {
    let mut attr = first_of(map.as_fd());
    bpf(bpf_cmd::BPF_MAP_DELETE_ELEM, &mut attr).map(drop)
}

/// Names the only element of a map, for a command on it.
fn first_of(map: BorrowedFd<'_>) -> bpf_attr {
    static FIRST: u32 = 0;
    let mut attr = zeroed();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd() as u32;
    attr.__bindgen_anon_2.key = &raw const FIRST as u64;
    attr
}

/// Registers the struct that a map holds, for as long as the link lives.
pub fn link_struct_ops(map: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.link_create.__bindgen_anon_1.prog_fd = map.as_raw_fd() as u32;
    attr.link_create.attach_type = BPF_STRUCT_OPS;
    bpf_fd(bpf_cmd::BPF_LINK_CREATE, &mut attr)
}

/// Makes an iterator's program one that can be run.
pub fn link_iterator(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd() as u32;
    attr.link_create.attach_type = bpf_attach_type::BPF_TRACE_ITER as u32;
    bpf_fd(bpf_cmd::BPF_LINK_CREATE, &mut attr)
}

/// Attaches a program to a cgroup, beside others.
pub fn link_cgroup(
    program: BorrowedFd<'_>,
    cgroup: BorrowedFd<'_>,
    attach_type: bpf_attach_type,
) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd() as u32;
    attr.link_create.__bindgen_anon_2.target_fd = cgroup.as_raw_fd() as u32;
    attr.link_create.attach_type = attach_type as u32;
    bpf_fd(bpf_cmd::BPF_LINK_CREATE, &mut attr)
}

/// Puts a program in the place of the one that a link holds, or a struct of callbacks in the
/// place of its (Linux 6.4), at once.
pub fn update_link(link: BorrowedFd<'_>, by: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = zeroed();
    attr.link_update.link_fd = link.as_raw_fd() as u32;
    attr.link_update.__bindgen_anon_1.new_prog_fd = by.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_LINK_UPDATE, &mut attr).map(drop)
}

/// Does so with the one that a pinned link of another build holds, and pins that link at `path`
/// as well. That comes first: where this process dies between the two, both pins say that either
/// build may have it.
pub fn take_link(pinned: &Path, by: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let link = open_pin(pinned)?;
    pin(link.as_fd(), path)?;
    update_link(link.as_fd(), by).inspect_err(|_| {
        // It is the other's alone, as before; the first error counts.
        let _ = fs::remove_file(path);
    })
}

/// Returns what the kernel tells of a link.
pub fn link_info(link: BorrowedFd<'_>) -> io::Result<bpf_link_info> {
    // SAFETY: plain integers and unions of them, for which zero bytes are valid.
    let mut info: bpf_link_info = unsafe { std::mem::zeroed() };
    // SAFETY: it is a plain record, of the kind that the kernel has for a link.
    unsafe { read_info(link, &mut info) }?;
    Ok(info)
}

/// Returns what the kernel tells of a program.
pub fn program_info(program: BorrowedFd<'_>) -> io::Result<bpf_prog_info> {
    // SAFETY: plain integers, for which zero bytes are valid: no room for lists.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    // SAFETY: it is a plain record, of the kind that the kernel has for a program.
    unsafe { read_info(program, &mut info) }?;
    Ok(info)
}

/// Has the kernel fill in what it tells of an object.
///
/// # Safety
/// The record is plain, and of the object's kind.
unsafe fn read_info<T>(object: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attr = zeroed();
    attr.info.bpf_fd = object.as_raw_fd() as u32;
    attr.info.info_len = size_of::<T>() as u32;
    attr.info.info = &raw mut *info as u64;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr).map(drop)
}

/// Opens the program with that number, which takes CAP_SYS_ADMIN.
pub fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.__bindgen_anon_6.__bindgen_anon_1.prog_id = id;
    bpf_fd(bpf_cmd::BPF_PROG_GET_FD_BY_ID, &mut attr)
}

/// Opens the map with that number, which takes CAP_SYS_ADMIN.
pub fn map_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.__bindgen_anon_6.__bindgen_anon_1.map_id = id;
    bpf_fd(bpf_cmd::BPF_MAP_GET_FD_BY_ID, &mut attr)
}

/// Opens the program of a link, which takes CAP_SYS_ADMIN.
pub fn linked_program(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    program_by_id(link_info(link)?.prog_id)
}

/// Attaches a program to its raw tracepoint.
pub fn link_raw_tracepoint(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    // The name stays zero: the program was loaded for it.
    attr.raw_tracepoint.prog_fd = program.as_raw_fd() as u32;
    bpf_fd(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attr)
}

/// A new run of an iterator, in the calling thread's namespaces. It is read like
/// a file.
pub fn create_iterator(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.iter_create.link_fd = link.as_raw_fd() as u32;
    bpf_fd(bpf_cmd::BPF_ITER_CREATE, &mut attr)
}

/// Pins a map, program or link in the BPF file system.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = zeroed();
    // SAFETY: this command reads this member of the union.
    let pin = unsafe { &mut attr.__bindgen_anon_4 };
    pin.pathname = path.as_ptr() as u64;
    pin.bpf_fd = object.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_OBJ_PIN, &mut attr).map(drop)
}

/// Opens a pinned map, program or link.
pub fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = zeroed();
    attr.__bindgen_anon_4.pathname = path.as_ptr() as u64;
    bpf_fd(bpf_cmd::BPF_OBJ_GET, &mut attr)
}

/// The third type of [`load_minimal_btf`].
const FUNCTION_TYPE: u32 = 3;

/// Type information of an integer and of a static function that returns one: a struct_ops map
/// wants some, and a program with a callback does.
fn load_minimal_btf() -> io::Result<OwnedFd> {
    const HEADER_BYTES: u32 = 24;
    let (int, function, prototype) = (1 << 24, 12 << 24, 13 << 24);
    // Of each the offset of its name, the kind, and what that asks for: an integer's bytes and
    // bits, the type that a prototype returns, a function's prototype.
    let types: [u32; 10] = [1, int, 4, 32, 0, prototype, 1, 5, function, 2];
    let strings = b"\0int\0f\0";
    let types_bytes = size_of_val(&types) as u32;
    let mut data = Vec::new();
    data.extend(0xeb9f_u16.to_ne_bytes()); // magic
    data.extend([1, 0]); // version, flags
    // Header length; offset and length of types and of strings.
    let header = [HEADER_BYTES, 0, types_bytes, types_bytes, strings.len() as u32];
    for word in header.into_iter().chain(types) {
        data.extend(word.to_ne_bytes());
    }
    data.extend(strings);
    let mut attr = zeroed();
    // SAFETY: this command reads this member of the union.
    let load = unsafe { &mut attr.__bindgen_anon_7 };
    load.btf = data.as_ptr() as u64;
    load.btf_size = data.len() as u32;
    bpf_fd(bpf_cmd::BPF_BTF_LOAD, &mut attr)
}

/// Arguments for a command, all zero.
pub fn zeroed() -> bpf_attr {
    // SAFETY: a union of plain integers, for which zero bytes are valid; the
    // kernel wants the unused ones to be zero.
    unsafe { std::mem::zeroed() }
}

/// Object names: at most 15 bytes of letters, digits, `_` and `.`.
fn copy_name(to: &mut [std::ffi::c_char; 16], name: &str) {
    for (to, byte) in to.iter_mut().take(15).zip(name.bytes()) {
        *to = byte as std::ffi::c_char;
    }
}

fn bpf_fd(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the command returned a descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Carries out a command.
pub fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i64> {
    // SAFETY: `attr` is as large as said, and what it points to outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_int, &raw mut *attr, size_of::<bpf_attr>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u8, source: u8, imm: i32) -> bpf_insn {
        // SAFETY: plain integers, for which zero bytes are valid.
        let mut instruction: bpf_insn = unsafe { std::mem::zeroed() };
        instruction.code = code;
        instruction.set_src_reg(source);
        instruction.imm = imm;
        instruction
    }

    #[test]
    fn functions_begin_where_they_are_called_or_their_address_is_taken() {
        const EXIT: u8 = 0x95;
        let program = [
            // Two instructions are one of 64 bits.
            instruction(BPF_LD_IMM64, BPF_PSEUDO_FUNC, 5),
            instruction(0, 0, 0),
            instruction(BPF_JMP_CALL, 0, 164),
            instruction(BPF_JMP_CALL, BPF_PSEUDO_CALL, 1),
            instruction(EXIT, 0, 0),
            instruction(EXIT, 0, 0),
            instruction(BPF_JMP_CALL, BPF_PSEUDO_CALL, -2),
            instruction(EXIT, 0, 0),
        ];
        let starts: Vec<u32> = function_info(&program).iter().map(|[start, _]| *start).collect();
        assert_eq!(starts, [0, 5, 6]);
    }

    #[test]
    fn only_calls_of_the_missing_helper_become_calls_of_the_kernel_function() {
        let mut program = [
            instruction(BPF_JMP_CALL, 0, 7),
            instruction(BPF_JMP_CALL, 0, 8),
            instruction(BPF_JMP_CALL, BPF_PSEUDO_CALL, 7),
        ];
        call_kernel_function(&mut program, 7, 1234);
        let calls = program.map(|instruction| (instruction.src_reg(), instruction.imm));
        assert_eq!(calls, [(BPF_PSEUDO_KFUNC_CALL, 1234), (0, 8), (BPF_PSEUDO_CALL, 7)]);
    }
}
