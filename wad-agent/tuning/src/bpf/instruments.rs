//! Reads what TCP knows of the flows of the paths, and of other connections.

use std::os::fd::{AsFd as _, OwnedFd};

use wad_common::{
    instruments::{Head, Members},
    process::Process,
    signals::Signals,
};
use wad_linux::netns::{self, Which};

use super::{
    Result, TuningError, iterators,
    programs::{INSTRUMENTS, Loader, OTHERS},
    records,
    scan::Scan,
};

/// The scan, ready to be run.
pub struct InstrumentsReader {
    scan: Scan,
    record_bytes: usize,
    counts_signals: bool,
}

/// The iterator over connections on no path, ready to be run in each network namespace. It
/// reads the same members of each as the one over flows does.
pub struct OthersReader(OwnedFd);

impl OthersReader {
    /// Loads the iterator.
    pub fn load(loader: Loader<'_>, members: &Members) -> Result<Self> {
        iterators::link(&loader.load_with(&OTHERS, members, None)?).map(Self)
    }
}

/// A record holds what the iterator says of a flow.
pub struct Record<'a> {
    pub head: Head,
    pub process: Process,
    /// The congestion signals since the flow is known; None where they are not counted.
    pub signals: Option<Signals>,
    members: &'a [u8],
}

impl Record<'_> {
    /// The bytes of a member, in the lower ones of this.
    pub fn member(&self, n: usize) -> u64 {
        let bytes = &self.members[8 * n..8 * (n + 1)];
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }
}

impl InstrumentsReader {
    /// Loads the scan. Congestion signals of flows may be counted by another program.
    pub fn load(loader: Loader<'_>, members: &Members, counts_signals: bool) -> Result<Self> {
        let heads_bytes = size_of::<Head>() + size_of::<Process>() + size_of::<Signals>();
        let record_bytes = heads_bytes + 8 * members.count as usize;
        let scan = Scan::load(loader, &INSTRUMENTS, record_bytes, members)?;
        Ok(Self { scan, record_bytes, counts_signals })
    }

    /// All flows, as they are now, in place of what is there. Where others begin or end
    /// meanwhile, one may be missing, or be there twice.
    pub fn read(&self, output: &mut Vec<u8>) -> Result<()> {
        self.scan.each(|records, is_whole| {
            if is_whole {
                output.clear();
                output.extend_from_slice(records);
            }
        })
    }

    /// Adds the connections on no path, of all network namespaces that can be entered, to
    /// what was read.
    pub fn read_others(&self, others: &OthersReader, output: &mut Vec<u8>) -> Result<()> {
        let mut result = Ok(());
        let read =
            || iterators::and_go_on(iterators::read_sockets(others.0.as_fd(), output), &mut result);
        netns::in_each(Which::All, read).map_err(TuningError::Namespaces)?;
        result.map_err(TuningError::Running)
    }

    /// The flows in what was read.
    pub fn records<'a>(&self, output: &'a [u8]) -> impl Iterator<Item = Record<'a>> {
        output.chunks_exact(self.record_bytes).map(|bytes| {
            let (head, rest) = bytes.split_at(size_of::<Head>());
            let (process, rest) = rest.split_at(size_of::<Process>());
            let (signals, members) = rest.split_at(size_of::<Signals>());
            let signals = self.counts_signals.then(|| records::read(signals));
            Record { head: records::read(head), process: records::read(process), signals, members }
        })
    }
}
