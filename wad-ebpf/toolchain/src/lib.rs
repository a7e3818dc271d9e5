//! The compiler and the linker of the BPF programs, and the folder that tools are in:
//! the build script that needs the programs and `cargo xtask` must build alike.
#![forbid(unsafe_code)]

mod bpf_toolchain;
pub mod tool_folders;

pub use bpf_toolchain::{BpfToolchain, LINKER_VERSION, TARGET, remaps};
