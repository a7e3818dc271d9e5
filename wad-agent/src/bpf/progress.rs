//! What the flows of the paths tell of them, read by an iterator over the flows'
//! state: of all network namespaces, and of no socket that is not ours.

use std::os::fd::{AsFd as _, OwnedFd};

use aya_obj::generated::{bpf_attach_type, bpf_prog_type};
use wad_common::progress::Progress;

use super::{Pins, Result, TuningError, maps, running};
use crate::struct_ops::{self, KernelBtf, StructOpsError, sys};

/// The iterator, ready to be run.
pub struct ProgressReader {
    link: OwnedFd,
}

impl ProgressReader {
    /// Loads the iterator.
    pub fn load(pins: &Pins, cgroup_id: u64) -> Result<Self> {
        let btf = KernelBtf::read()?;
        let maps = maps::open_all(pins)?;
        let object = running::link_object(&maps, &btf, cgroup_id)?;
        let program = struct_ops::load(&sys::ProgramLoad {
            name: "wad_progress",
            instructions: object.instructions("wad_progress").map_err(StructOpsError::from)?,
            program_type: bpf_prog_type::BPF_PROG_TYPE_TRACING,
            attach_type_id: btf.function_id("bpf_iter_bpf_sk_storage_map")?,
            attach_type: bpf_attach_type::BPF_TRACE_ITER as u32,
        })?;
        let flows = maps::open(pins, "FLOWS")?;
        let link = sys::link_map_iterator(program.as_fd(), flows.fd().as_fd())
            .map_err(TuningError::Running)?;
        Ok(Self { link })
    }

    /// All flows that can send still, as they are now.
    pub fn read(&self) -> Result<Vec<Progress>> {
        let output = running::read(self.link.as_fd()).map_err(TuningError::Running)?;
        let records = output.chunks_exact(size_of::<Progress>());
        // SAFETY: there are as many bytes as a record has, all values of them are
        // records (integers only, see `record!` of wad-common), and the read asks
        // for no alignment.
        Ok(records
            .map(|bytes| unsafe { bytes.as_ptr().cast::<Progress>().read_unaligned() })
            .collect())
    }
}
