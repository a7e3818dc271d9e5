//! Runs the scans of the kernel side (`wad-ebpf/src/tuner/scan.rs`): over all flows, or all paths,
//! of all network namespaces at once, without a lock of any socket.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    slice,
    sync::Mutex,
    time::Duration,
};

use aya::Pod;
use aya_obj::generated::bpf_map_type;
use memmap2::{MmapOptions, MmapRaw};
use nix::time::{ClockId, clock_gettime};
use wad_common::{instruments::Members, scan::Header};
use wad_struct_ops::{KernelBtf, sys};
use wad_toolbox::mutex::locked;

use super::{
    Result, TuningError,
    open_maps::OpenMaps,
    programs::{Loader, Optional},
    records,
};

const OUTPUT: &str = "OUTPUT";
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Bytes of records that the output of a scan has room for at first, and always has.
const LEAST_BYTES: usize = 1 << 16;
/// An output that has so many times the room that its records took is made smaller.
const SPARE: usize = 8;
/// How often a scan is repeated for want of room, each time with more of it.
const ATTEMPTS: usize = 8;

/// A scan, loaded into the kernel.
pub struct Scan {
    maps: OpenMaps,
    program: &'static Optional,
    /// Bytes of each of its records, 0 where it has none.
    record_bytes: usize,
    members: Box<Members>,
    /// One run at a time has the output.
    loaded: Mutex<Loaded>,
}

/// The program of a scan, and the output that it was loaded with.
struct Loaded {
    program: OwnedFd,
    output: Output,
}

impl Scan {
    /// Loads the scan, whose records have so many bytes, and which reads these members of
    /// `struct tcp_sock`.
    pub fn load(
        loader: Loader<'_>,
        program: &'static Optional,
        record_bytes: usize,
        members: &Members,
    ) -> Result<Self> {
        let loaded = Loaded::load(loader, (program, members), record_bytes, 0)?;
        let loaded = Mutex::new(loaded);
        let (maps, members) = (loader.maps.clone(), Box::new(*members));
        Ok(Self { maps, program, record_bytes, members, loaded })
    }

    /// Runs a scan that gives no records.
    pub fn run(&self) -> Result<()> {
        self.each(|_, _| ())
    }

    /// Runs the scan, and returns its records.
    pub fn records<T: Pod>(&self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(|records, is_whole| {
            if is_whole {
                all = records::all(records).collect();
            }
        })?;
        Ok(all)
    }

    /// Runs the scan, and repeats it with more room for as long as that is too short. Each run
    /// hands its records on, and whether there are no more of them.
    pub fn each(&self, mut take: impl FnMut(&[u8], bool)) -> Result<()> {
        let mut loaded = locked(&self.loaded);
        for _ in 0..ATTEMPTS {
            let Header { written, missing, .. } = loaded.run()?;
            take(loaded.output.records(written as usize), missing == 0);
            let records = written as usize + missing as usize;
            let room = loaded.output.records;
            let has_spare = room > room_for(self.record_bytes, SPARE * records);
            let resized = if missing != 0 || has_spare {
                self.resize(&mut loaded, records + records / 2)
            } else {
                Ok(())
            };
            if missing == 0 {
                // The records are whole: room to spare can be freed at the next run.
                return Ok(());
            }
            resized?;
        }
        Err(TuningError::NoRoom { scan: self.program.name })
    }

    /// Loads the program anew, with room for so many records.
    fn resize(&self, loaded: &mut Loaded, records: usize) -> Result<()> {
        // A scan changes no socket, of whatever cgroup.
        let loader = Loader { maps: &self.maps, btf: &KernelBtf::read()?, cgroup_id: 0 };
        let of = (self.program, &*self.members);
        *loaded = Loaded::load(loader, of, self.record_bytes, records)?;
        Ok(())
    }
}

/// Returns how many records there is room for where so many are needed.
fn room_for(record_bytes: usize, needed: usize) -> usize {
    // A scan without records needs no room for any.
    LEAST_BYTES.checked_div(record_bytes).map_or(0, |least| least.max(needed))
}

impl Loaded {
    fn load(
        loader: Loader<'_>,
        (program, members): (&Optional, &Members),
        record_bytes: usize,
        records: usize,
    ) -> Result<Self> {
        let (map, output) = Output::new(record_bytes, room_for(record_bytes, records))?;
        let program = loader.load_with(program, members, Some(map.as_fd()))?;
        // The program and the memory keep the map: descriptors may be few.
        Ok(Self { program, output })
    }

    /// Runs the program once.
    fn run(&self) -> Result<Header> {
        let scan = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(clock_error)?);
        self.output.begin(scan.as_nanos() as u64);
        sys::run_program(self.program.as_fd()).map_err(TuningError::Scan)?;
        Ok(self.output.header())
    }
}

fn clock_error(error: nix::Error) -> TuningError {
    TuningError::Scan(error.into())
}

/// The output of a scan: an array that the kernel writes and this process has in its memory.
pub struct Output {
    memory: MmapRaw,
    /// Bytes of an element.
    record_bytes: usize,
    /// There is room for so many.
    records: usize,
}

impl Output {
    /// Makes an output, and the map that it is.
    pub fn new(record_bytes: usize, records: usize) -> Result<(OwnedFd, Self)> {
        let record_bytes = record_bytes.next_multiple_of(8).max(size_of::<Header>());
        // The header is the first.
        let entries = records + 1;
        let spec = sys::MapSpec {
            name: OUTPUT,
            map_type: bpf_map_type::BPF_MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes: record_bytes as u32,
            entries: entries as u32,
            flags: BPF_F_MMAPABLE,
        };
        let map = sys::create_map(&spec, None)
            .map_err(|source| TuningError::Sets { name: OUTPUT, source })?;
        let memory = MmapOptions::new().len(record_bytes * entries).map_raw(&map);
        let memory = memory.map_err(TuningError::Scan)?;
        Ok((map, Self { memory, record_bytes, records }))
    }

    fn begin(&self, scan: u64) {
        let header = Header { scan, written: 0, missing: 0 };
        // SAFETY: the memory begins with a header, and no program writes it now.
        unsafe { self.memory.as_mut_ptr().cast::<Header>().write_volatile(header) };
    }

    fn header(&self) -> Header {
        // SAFETY: as above.
        unsafe { self.memory.as_ptr().cast::<Header>().read_volatile() }
    }

    /// Returns the first records.
    fn records(&self, count: usize) -> &[u8] {
        let bytes = self.record_bytes * count.min(self.records);
        // SAFETY: they are behind the header, and within the memory. The kernel writes them only
        // while the scan runs, which takes a lock that whoever reads them has.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(self.record_bytes), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST_BYTES, room_for};

    #[test]
    fn an_output_has_room_for_what_is_needed_and_no_less_than_always() {
        assert_eq!(room_for(64, 0), LEAST_BYTES / 64);
        assert_eq!(room_for(64, 100_000), 100_000);
        assert_eq!(room_for(0, 100_000), 0, "a scan without records");
    }
}
