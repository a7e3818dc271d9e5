//! TCP congestion control from BPF: a loader for struct_ops, without libbpf.
//!
//! aya has no struct_ops. This crate is what it lacks, and stands alone: it needs
//! nothing of `wad`'s. It knows the kernel's types ([`KernelBtf`]), links an object's programs
//! ([`LinkedObject`]), and registers a set of them as an algorithm, or in the place of
//! one of the same name ([`CongestionControl`]):
//!
//! 1. Each program is loaded as `BPF_PROG_TYPE_STRUCT_OPS` for one member of
//!    `tcp_congestion_ops`.
//! 2. A map of type `BPF_MAP_TYPE_STRUCT_OPS` takes the struct: the name, and a
//!    program's descriptor in the place of each callback.
//! 3. From Linux 6.4 a link registers the map and unregisters it when its last
//!    holder, a pin included, is gone. Before that, updating the map's element
//!    registers it, deleting the element unregisters it, and only a pinned map
//!    can be unregistered after its owner died.
//!
//! Flows under an algorithm that is unregistered, or replaced, keep it until they end,
//! or are given another.
//!
//! ```no_run
//! use std::{collections::HashMap, path::Path};
//!
//! use wad_struct_ops::{Callback, CongestionControl, KernelBtf, LinkedObject, unsound};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let btf = KernelBtf::read()?;
//! if let Some(why) = unsound(&btf) {
//!     return Err(why.into());
//! }
//! // Programs in the sections `freplace/cong_avoid` and so on, as bpf-linker makes them.
//! let object = LinkedObject::link(&std::fs::read("law.o")?, HashMap::new(), &HashMap::new())?;
//! let callbacks = [
//!     Callback { member: "ssthresh", program: "my_ssthresh" },
//!     Callback { member: "undo_cwnd", program: "my_undo_cwnd" },
//!     Callback { member: "cong_avoid", program: "my_cong_avoid" },
//! ];
//! let law = CongestionControl::load("my_law", &callbacks, &object, &btf)?;
//! // From here on sockets may choose it, until the pin is taken away.
//! law.register(Path::new("/sys/fs/bpf/my_law"))?;
//! CongestionControl::unpin(Path::new("/sys/fs/bpf/my_law"))?;
//! # Ok(())
//! # }
//! ```

mod kernel_btf;
mod object;
mod registered;
pub mod sys;

use std::{
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use aya_obj::generated::bpf_prog_type;
pub use kernel_btf::{BtfError, KernelBtf, Number};
pub use object::{LinkedObject, ObjectError};
pub use registered::Registered;
use thiserror::Error;

/// Longest name of an algorithm: `TCP_CA_NAME_MAX` less the final zero.
pub const NAME_BYTES: usize = 15;

/// Whether this kernel runs every callback of a congestion control whenever it is
/// called; if not, why none may be registered.
///
/// The code that enters such a program was made to trace functions, and skips one
/// that is running already on the same processor: a `ssthresh` interrupted by
/// another flow's, which then gets whatever was in the register. Linux 6.1 has
/// another entry for each (64696c40d03c, 271de525e1d7): the one that tells of
/// recursion got a name of its own, whatever the version that it is found in.
pub fn unsound(btf: &KernelBtf) -> Option<&'static str> {
    if btf.structure(OPS_VALUE).is_err() {
        return Some("it has no TCP congestion control by BPF");
    }
    let entries = ["__bpf_prog_enter_recur", "__bpf_prog_enter_struct_ops"];
    let is_sound = entries.iter().any(|entry| btf.has_function(entry));
    (!is_sound).then_some(
        "it may skip callbacks of a TCP congestion control by BPF and take garbage for their \
         results",
    )
}

/// The error "not supported" is one of the kernel's own numbers
/// (include/linux/errno.h).
const ENOTSUPP: i32 = 524;

const OPS: &str = "tcp_congestion_ops";
const OPS_VALUE: &str = "bpf_struct_ops_tcp_congestion_ops";
const LOG_BYTES: usize = 1 << 20;
const LOG_LINES: usize = 4;

/// How long a name may stay taken by a link that is gone.
const FREE_LIMIT: Duration = Duration::from_secs(1);
const FREE_INTERVAL: Duration = Duration::from_millis(10);

/// Says why an algorithm could not be registered.
#[derive(Debug, Error)]
pub enum StructOpsError {
    #[error(transparent)]
    Btf(#[from] BtfError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("the kernel refused the BPF program `{program}`: {}", refusal(error, log))]
    Load { program: String, error: io::Error, log: String },
    #[error("cannot make the struct_ops map of `{name}`: {error}; {}", cure(error))]
    Map { name: String, error: io::Error },
    #[error(
        "a congestion control named `{name}` is registered already, by another instance or a \
         program that died; `wad cleanup` removes what an instance left"
    )]
    Exists { name: String },
    #[error("cannot register the congestion control `{name}`: {error}; {}", cure(error))]
    Register { name: String, error: io::Error },
    #[error("cannot pin the congestion control `{name}` at {}", path.display())]
    Pin { name: String, path: PathBuf, source: io::Error },
}

/// A member of `tcp_congestion_ops` and the program for it.
pub struct Callback {
    pub member: &'static str,
    pub program: &'static str,
}

/// A congestion control that the kernel has accepted, and that is not registered yet.
pub struct CongestionControl {
    name: String,
    map: OwnedFd,
    way: Way,
}

/// Says how it is registered.
enum Way {
    Link,
    /// Before Linux 6.4 it is registered with this value, which holds descriptors of
    /// the programs.
    Value {
        value: Vec<u8>,
        _programs: Vec<OwnedFd>,
    },
}

impl CongestionControl {
    /// Loads the programs of what is to be registered under `name`.
    pub fn load(
        name: &str,
        callbacks: &[Callback],
        object: &LinkedObject,
        btf: &KernelBtf,
    ) -> Result<Self, StructOpsError> {
        let ops = btf.structure(OPS)?;
        let value_type = btf.structure(OPS_VALUE)?;
        let data_bytes = value_type.member("data")?.offset_bytes();
        let mut value = vec![0; value_type.size_bytes as usize];
        let mut put = |offset: u32, bytes: &[u8]| {
            let at = (data_bytes + offset) as usize;
            value[at..at + bytes.len()].copy_from_slice(bytes);
        };

        put(ops.member("name")?.offset_bytes(), &name.as_bytes()[..name.len().min(NAME_BYTES)]);
        let mut programs = Vec::new();
        for callback in callbacks {
            let member = ops.member(callback.member)?;
            let program = load(&sys::ProgramLoad {
                name: callback.program,
                instructions: object.instructions(callback.program)?,
                program_type: bpf_prog_type::BPF_PROG_TYPE_STRUCT_OPS,
                attach_type_id: ops.type_id,
                attach_type: member.index,
            })?;
            put(member.offset_bytes(), &(program.as_raw_fd() as u64).to_ne_bytes());
            programs.push(program);
        }
        let (map, way) = make(name, value_type.type_id, value, programs)?;
        Ok(Self { name: name.to_owned(), map, way })
    }

    /// Returns the name that it is to be registered as.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Registers it, and pins that at `path`, so that it outlives this process.
    pub fn register(self, path: &Path) -> Result<(), StructOpsError> {
        let Self { name, map, way } = self;
        let pin = |object: &OwnedFd| {
            sys::pin(object.as_fd(), path).map_err(|source| StructOpsError::Pin {
                name: name.clone(),
                path: path.to_owned(),
                source,
            })
        };
        match way {
            Way::Link => {
                let link = once_free(|| sys::link_struct_ops(map.as_fd()));
                pin(&link.map_err(|error| refused(&name, error))?)
            }
            Way::Value { value, .. } => {
                pin(&map)?;
                // Only now: registered without a pin, nothing could unregister it if
                // this process died.
                once_free(|| sys::update_first(&map, &value)).map_err(|error| {
                    // What is not registered needs no pin; the first error counts.
                    let _ = fs::remove_file(path);
                    refused(&name, error)
                })
            }
        }
    }

    /// Registers it in the place of what is registered under the name and pinned at
    /// `pinned`, which stays there. Before Linux 6.4 the name is gone for a moment.
    pub fn replace(self, pinned: &Path, path: &Path) -> Result<(), StructOpsError> {
        let replaced = match self.way {
            Way::Link => {
                return sys::take_link(pinned, self.map.as_fd(), path)
                    .map_err(|error| refused(&self.name, error));
            }
            Way::Value { .. } => sys::open_pin(pinned).and_then(|map| unregister(&map)),
        };
        replaced.map_err(|error| refused(&self.name, error))?;
        self.register(path)
    }

    /// Registers it in the place of what another build may have put in that of what is pinned at
    /// `path`, and pinned at `theirs`, which stays there. Before Linux 6.4 the name is gone for a
    /// moment.
    pub fn take_back(self, theirs: &Path, path: &Path) -> Result<(), StructOpsError> {
        let taken = match self.way {
            Way::Link => {
                let link = sys::open_pin(path);
                return link
                    .and_then(|link| sys::update_link(link.as_fd(), self.map.as_fd()))
                    .map_err(|error| refused(&self.name, error));
            }
            Way::Value { .. } => sys::open_pin(theirs)
                .and_then(|map| unregister(&map))
                .and_then(|()| Self::unpin(path)),
        };
        taken.map_err(|error| refused(&self.name, error))?;
        self.register(path)
    }

    /// Unregisters what was pinned at `path`, and removes the pin. On an error
    /// the pin stays: without it a map could not be unregistered any more.
    pub fn unpin(path: &Path) -> io::Result<()> {
        unregister(&sys::open_pin(path)?)?;
        fs::remove_file(path)
    }
}

/// A link unregisters with its last holder. A map of a kernel before 6.4 has to be
/// told.
fn unregister(object: &OwnedFd) -> io::Result<()> {
    match sys::delete_first(object) {
        Err(error) if !is_no_registered_map(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether deleting the element failed because the object is a link, or a map
/// that was never registered, or is not any more
/// (`bpf_struct_ops_map_delete_elem()`).
fn is_no_registered_map(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT | libc::EINPROGRESS))
}

/// Makes the map to be registered, and finds out by which way.
fn make(
    name: &str,
    value_type_id: u32,
    value: Vec<u8>,
    programs: Vec<OwnedFd>,
) -> Result<(OwnedFd, Way), StructOpsError> {
    let map_error = |error| StructOpsError::Map { name: name.to_owned(), error };
    let bytes = value.len() as u32;
    match sys::create_struct_ops(name, value_type_id, bytes, true) {
        Ok(map) => {
            sys::update_first(&map, &value).map_err(|error| refused(name, error))?;
            Ok((map, Way::Link))
        }
        // Before Linux 6.4 the flag is unknown.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let map =
                sys::create_struct_ops(name, value_type_id, bytes, false).map_err(map_error)?;
            Ok((map, Way::Value { value, _programs: programs }))
        }
        Err(error) => Err(map_error(error)),
    }
}

/// Tries again for a while as long as the name is taken: the kernel may free a
/// link that was let go of a moment later, from a work queue.
fn once_free<T>(mut register: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + FREE_LIMIT;
    loop {
        match register() {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && Instant::now() < until => {
                thread::sleep(FREE_INTERVAL);
            }
            result => return result,
        }
    }
}

fn refused(name: &str, error: io::Error) -> StructOpsError {
    match error.raw_os_error() {
        Some(libc::EEXIST) => StructOpsError::Exists { name: name.to_owned() },
        _ => StructOpsError::Register { name: name.to_owned(), error },
    }
}

/// Loads a program, of this or another type that aya does not load so.
pub fn load(program: &sys::ProgramLoad<'_>) -> Result<OwnedFd, StructOpsError> {
    sys::load_program(program, &mut []).or_else(|error| {
        // Once more, for the verifier's words only: this time it may fail for
        // want of room for them.
        let mut log = vec![0; LOG_BYTES];
        sys::load_program(program, &mut log).map_err(|_| StructOpsError::Load {
            program: program.name.to_owned(),
            error,
            log: text(&log),
        })
    })
}

/// Returns what the kernel and its verifier said of a program, and what may help: one
/// line.
pub fn refusal(error: &io::Error, log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(LOG_LINES)..] {
        [] => format!("{error}; {}", cure(error)),
        last => format!("{error}; the verifier: {}; {}", last.join(" | "), cure(error)),
    }
}

/// Returns what may help when the kernel refuses a program.
pub fn cure(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) if is_capable(&own_status()) => {
            "the capabilities that it takes are there: this kernel, or a security module, \
             allows it to nobody"
        }
        Some(libc::EPERM) => {
            "likely cure: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
        }
        Some(libc::EINVAL | ENOTSUPP) => {
            "likely cause: this kernel has no TCP congestion control by BPF \
             (CONFIG_BPF_JIT and Linux 6.1 or later are needed)"
        }
        Some(libc::EACCES) => {
            "likely cause: this kernel's tcp_sock differs from those wad knows; please report it"
        }
        _ => "the kernel's log (dmesg) may say more",
    }
}

/// The numbers of CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF (capability.h).
const CAPABILITIES: [u32; 3] = [12, 38, 39];

fn own_status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Tells whether a process may load programs, by its status (proc_pid_status(5)).
fn is_capable(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0);
    CAPABILITIES.iter().all(|number| effective & (1 << number) != 0)
}

fn text(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_being_freed_is_waited_for() {
        let mut tries = 0;
        let result = once_free(|| {
            tries += 1;
            if tries < 3 { Err(io::Error::from_raw_os_error(libc::EEXIST)) } else { Ok(tries) }
        });
        assert_eq!(result.unwrap(), 3);
        let begun = Instant::now();
        let other = once_free(|| Err::<(), _>(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(other.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(begun.elapsed() < FREE_LIMIT);
        let taken = once_free(|| Err::<(), _>(io::Error::from_raw_os_error(libc::EEXIST)));
        assert_eq!(taken.unwrap_err().raw_os_error(), Some(libc::EEXIST));
    }

    #[test]
    fn only_what_is_not_registered_may_lose_its_pin() {
        let harmless = |errno| is_no_registered_map(&io::Error::from_raw_os_error(errno));
        assert!(harmless(libc::EINVAL) && harmless(libc::ENOENT) && harmless(libc::EINPROGRESS));
        assert!(!harmless(libc::EPERM) && !harmless(libc::EBUSY));
    }

    #[test]
    fn capabilities_that_are_there_are_no_cure() {
        let status =
            |effective| format!("Name:\twad\nCapPrm:\t0000000000000000\nCapEff:\t{effective}\n");
        assert!(is_capable(&status("000000c000001000")) && is_capable(&status("000001ffffffffff")));
        for without in ["000000c000000000", "0000004000001000", "0000008000001000", "nothing"] {
            assert!(!is_capable(&status(without)), "{without}");
        }
        assert!(!is_capable(""));
    }

    #[test]
    fn a_refusal_is_one_line_that_ends_in_what_to_do() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let said = refusal(&error, &text(b"1\n2\n\n 3\n4\n5\n\0rest"));
        assert!(said.contains("(os error 1); the verifier: 2 | 3 | 4 | 5; "), "{said}");
        let said = refusal(&error, "");
        assert_eq!(said, format!("{error}; {}", cure(&error)));
    }
}
