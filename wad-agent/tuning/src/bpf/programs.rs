//! The programs that a kernel may refuse while all else goes on: their kinds, and what goes without
//! each. Which ones a kernel takes is found out by loading them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Display},
    os::fd::{BorrowedFd, OwnedFd},
    sync::Mutex,
};

use aya_obj::generated::{bpf_attach_type, bpf_prog_type};
use tracing::{info, warn};
use wad_common::instruments::Members;
use wad_struct_ops::{self as struct_ops, KernelBtf, LinkedObject, StructOpsError, sys};
use wad_toolbox::{causes::told, mutex::locked};

use super::{Result, objects, offsets, open_maps::OpenMaps, pinned_maps};
use crate::readings::Refusal;

/// A program that the kernel may refuse.
#[derive(Debug, PartialEq, Eq)]
pub struct Optional {
    pub name: &'static str,
    pub kind: Kind,
    /// The maps that it refers to: the kernel refuses it without any of them.
    pub maps: &'static [&'static str],
    /// Whether little is lost without it.
    pub is_bonus: bool,
    /// It says what goes without the program.
    pub without: &'static str,
}

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A program of type `syscall`, which goes over a map.
    Scan,
    /// An iterator over objects of the kernel.
    Iterator(&'static str),
    /// At a tracepoint, with its arguments as the kernel has them.
    Tracepoint(&'static str),
    /// At the end of a function of the kernel.
    FunctionExit(&'static str),
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scan => write!(f, "syscall"),
            Self::Iterator(of) => write!(f, "iter/{of}"),
            Self::Tracepoint(name) => write!(f, "tp_btf/{name}"),
            Self::FunctionExit(function) => write!(f, "fexit/{function}"),
        }
    }
}

pub const RUNNING: Optional = Optional {
    name: "wad_running",
    kind: Kind::Iterator("tcp"),
    maps: pinned_maps::ALL,
    is_bonus: false,
    without: "flows that run already stay as they are, now and when the policy changes",
};
/// Only for kernels that have no callback at the end of a flow that ran already (before Linux
/// 6.12).
pub const ENDED: Optional = Optional {
    name: "wad_ended",
    kind: Kind::Tracepoint("inet_sock_set_state"),
    maps: pinned_maps::OF_VISITS,
    is_bonus: true,
    without: "the end of a flow that ran already is found within a minute, not at once",
};
pub const NEEDS: Optional = Optional {
    name: "wad_needs",
    kind: Kind::Scan,
    maps: pinned_maps::OF_SCANS,
    is_bonus: false,
    without: "buffers with \"auto\" stay as the kernel sizes them, but for send buffers under \
              wad's own laws; `max_memory` bounds nothing, and settings of network namespaces do \
              not follow flows into them",
};
pub const GROWING: Optional = Optional {
    name: "wad_growing",
    kind: Kind::Iterator("tcp"),
    maps: pinned_maps::OF_VISITS,
    is_bonus: false,
    without: "buffers with \"auto\" stay as the kernel sizes them, but for send buffers under \
              wad's own laws",
};
pub const RECOUNT: Optional = Optional {
    name: "wad_recount",
    kind: Kind::Scan,
    maps: pinned_maps::OF_SCANS,
    is_bonus: false,
    without: "flows whose end another program on the cgroup hides are counted for ever",
};
pub const ACCEPTED: Optional = Optional {
    name: "wad_accepted",
    kind: Kind::FunctionExit("inet_csk_accept"),
    maps: pinned_maps::OF_HOLDERS,
    is_bonus: true,
    without: "which process has accepted a connection is known once somebody asks for flows, not \
              before",
};
/// The same, for kernels before Linux 6.10.
pub const ACCEPTED_BEFORE: Optional = Optional { name: "wad_accepted_before", ..ACCEPTED };
pub const HOLDERS: Optional = Optional {
    name: "wad_holders",
    kind: Kind::Iterator("task_file"),
    maps: pinned_maps::OF_HOLDERS,
    is_bonus: true,
    without: "which process has a flow that ran already, or was accepted, is not known",
};
/// The tracepoint came with Linux 5.19.
pub const SIGNALS: Optional = Optional {
    name: "wad_signals",
    kind: Kind::Tracepoint("tcp_cong_state_set"),
    maps: pinned_maps::OF_VISITS,
    is_bonus: true,
    without: "congestion signals of flows are not counted",
};
pub const PROGRESS: Optional = Optional {
    name: "wad_progress",
    kind: Kind::Scan,
    maps: pinned_maps::OF_SCANS,
    is_bonus: false,
    without: "flows show what their path carries only when they end",
};
pub const HEALTH: Optional = Optional {
    name: "wad_health",
    kind: Kind::Scan,
    maps: pinned_maps::OF_SCANS,
    is_bonus: false,
    without: "guards see no connections",
};
pub const INSTRUMENTS: Optional = Optional {
    name: "wad_instruments",
    kind: Kind::Scan,
    maps: pinned_maps::OF_SCANS,
    is_bonus: false,
    without: "`wad flows`, `top`, `trace`, `diagnose` and `suggest`, derived events and [learn] \
              have no flow to read, and counts of a path advance as its flows end",
};
pub const OTHERS: Optional = Optional {
    name: "wad_others",
    kind: Kind::Iterator("tcp"),
    maps: pinned_maps::OF_HOLDERS,
    is_bonus: false,
    without: "connections on no path are not shown by `wad flows --all`, and `wad suggest` and \
              [learn] do not see them",
};

/// All that a kernel of today is given.
pub const ALL: [&Optional; 11] = [
    &NEEDS,
    &GROWING,
    &INSTRUMENTS,
    &PROGRESS,
    &HEALTH,
    &RECOUNT,
    &RUNNING,
    &OTHERS,
    &HOLDERS,
    &ACCEPTED,
    &SIGNALS,
];

/// Makes a pointer of an address (Linux 6.2).
const RDONLY_CAST: &str = "bpf_rdonly_cast";
/// The helper that stands for it in the object (`wad-ebpf/src/kernel.rs`).
const RDONLY_CAST_HELPER: i32 = 0x7fff_0001;

/// The option that has a running flow's end reported (Linux 6.12).
const FLAGS_OPTION: &str = "TCP_BPF_SOCK_OPS_CB_FLAGS";

/// Whether the kernel has a callback at the end of a flow that ran already.
pub fn reports_ends_of_running(btf: &KernelBtf) -> bool {
    btf.has_name(FLAGS_OPTION)
}

/// Loads programs of the tuner's object one by one.
#[derive(Clone, Copy)]
pub struct Loader<'a> {
    pub maps: &'a OpenMaps,
    pub btf: &'a KernelBtf,
    /// The cgroup whose sockets those may change that go over sockets.
    pub cgroup_id: u64,
}

impl Loader<'_> {
    /// Loads a program that reads nothing of its own.
    pub fn load(&self, program: &Optional) -> Result<OwnedFd> {
        self.load_with(program, &Members::NONE, None)
    }

    /// Loads a program that reads these members of `struct tcp_sock`, and gives what it finds to
    /// this output.
    pub fn load_with(
        &self,
        program: &Optional,
        members: &Members,
        output: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd> {
        let mut maps = self.maps.these(program.maps)?;
        maps.extend(output.map(|output| ("OUTPUT", output)));
        let object = link(&maps, self.btf, (self.cgroup_id, members))?;
        load_from(&object, self.btf, program)
    }
}

/// Links the tuner's object against maps, for the flows of a cgroup and these members of
/// `struct tcp_sock`.
pub fn link(
    maps: &HashMap<&str, BorrowedFd<'_>>,
    btf: &KernelBtf,
    (cgroup_id, members): (u64, &Members),
) -> Result<LinkedObject> {
    let sock = offsets::sock(btf)?;
    let (choices, defaults, task) =
        (offsets::choices(btf)?, offsets::defaults(btf)?, offsets::task(btf)?);
    let has_flags_option = u8::from(reports_ends_of_running(btf));
    let casts = btf.has_function(RDONLY_CAST);
    let tcp_sock_type = if casts { btf.structure("tcp_sock")?.type_id } else { 0 };
    let globals = HashMap::from([
        ("SOCK", (pinned_maps::bytes(&sock), true)),
        ("CGROUP", (pinned_maps::bytes(&cgroup_id), true)),
        ("MEMBERS", (pinned_maps::bytes(members), true)),
        ("CHOICES", (pinned_maps::bytes(&choices), true)),
        ("DEFAULTS", (pinned_maps::bytes(&defaults), true)),
        ("HAS_FLAGS_OPTION", (pinned_maps::bytes(&has_flags_option), true)),
        ("TASK", (pinned_maps::bytes(&task), true)),
        ("TCP_SOCK_TYPE", (pinned_maps::bytes(&tcp_sock_type), true)),
    ]);
    Ok(LinkedObject::link(objects::tuner(), globals, maps).map_err(StructOpsError::from)?)
}

/// Loads a program of the linked object.
pub fn load_from(object: &LinkedObject, btf: &KernelBtf, program: &Optional) -> Result<OwnedFd> {
    let Optional { name, kind, .. } = *program;
    let mut instructions = object.instructions(name).map_err(StructOpsError::from)?.to_vec();
    let tracing = bpf_prog_type::BPF_PROG_TYPE_TRACING;
    let (program_type, attach_type_id, attach_type) = match kind {
        Kind::Scan => {
            if let Ok(cast) = btf.function_id(RDONLY_CAST) {
                sys::call_kernel_function(&mut instructions, RDONLY_CAST_HELPER, cast);
            }
            // It is attached to nothing.
            (bpf_prog_type::BPF_PROG_TYPE_SYSCALL, 0, 0)
        }
        Kind::Iterator(of) => {
            let id = btf.function_id(&format!("bpf_iter_{of}"))?;
            (tracing, id, bpf_attach_type::BPF_TRACE_ITER as u32)
        }
        Kind::Tracepoint(name) => {
            let id = btf.typedef_id(&format!("btf_trace_{name}"))?;
            (tracing, id, bpf_attach_type::BPF_TRACE_RAW_TP as u32)
        }
        Kind::FunctionExit(function) => {
            (tracing, btf.function_id(function)?, bpf_attach_type::BPF_TRACE_FEXIT as u32)
        }
    };
    let instructions = &instructions;
    let load = sys::ProgramLoad { name, instructions, program_type, attach_type_id, attach_type };
    Ok(struct_ops::load(&load)?)
}

/// The programs that this kernel has refused, of those that were tried so far.
#[derive(Default)]
pub struct Refusals(Mutex<BTreeMap<&'static str, Refusal>>);

impl Refusals {
    /// Notes what came of loading a program. A refusal is logged, with what goes without it.
    pub fn note<T>(&self, program: &'static Optional, loaded: Result<T>) -> Option<T> {
        let loaded = self.watch(program, loaded);
        loaded
            .inspect_err(|error| {
                let Optional { name, kind, is_bonus, without, .. } = program;
                let reason = told(error);
                if *is_bonus {
                    info!(program = name, %kind, "{without}: {reason}");
                } else {
                    warn!(program = name, %kind, "{without}: {reason}");
                }
            })
            .ok()
    }

    /// Notes the same, and leaves it to the caller to log it.
    pub fn watch<T>(&self, program: &'static Optional, loaded: Result<T>) -> Result<T> {
        let mut refused = locked(&self.0);
        match &loaded {
            Ok(_) => refused.remove(program.name),
            Err(error) => {
                let Optional { name, kind, without, .. } = *program;
                let (kind, reason) = (kind.to_string(), told(error));
                refused.insert(name, Refusal { program: name, kind, without, reason })
            }
        };
        loaded
    }

    /// Returns all of them, by their names.
    pub fn all(&self) -> Vec<Refusal> {
        locked(&self.0).values().cloned().collect()
    }
}
