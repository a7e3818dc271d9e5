//! The host's ceilings on socket buffers, in bytes: raised where a policy needs more,
//! put back when none does. Those on fixed buffers are the arguments of SO_RCVBUF and
//! SO_SNDBUF (socket(7)), before the kernel doubles them; those on buffers that the
//! kernel tunes are the buffers themselves (tcp(7)), of this network namespace.

use std::cmp::Ordering;

use tracing::warn;
use wad_linux::sysctl::last_number;
use wad_policy::config::{AutoBuffers, PathPolicy};
use wad_toolbox::causes::with_causes;

use crate::{
    journal::{Journal, JournalError},
    preview::Move,
};

/// The largest buffers that any policy asks for; zero where none asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    pub rcvbuf_bytes: u64,
    pub sndbuf_bytes: u64,
    /// Either buffer, where the kernel tunes both.
    pub tuned_bytes: u64,
}

/// The host's ceilings on the arguments of SO_RCVBUF and SO_SNDBUF.
pub const RMEM_MAX: &str = "net.core.rmem_max";
pub const WMEM_MAX: &str = "net.core.wmem_max";
/// Least, default and greatest buffers that the kernel tunes.
pub const TCP_RMEM: &str = "net.ipv4.tcp_rmem";
pub const TCP_WMEM: &str = "net.ipv4.tcp_wmem";

/// An initial receive window below net.core.rmem_max leaves the window scale as
/// it is, and so is safe with SYN cookies (`tcp_select_initial_window()`).
const JUMBO_SEGMENT_BYTES: u32 = 9_000;

impl Ceilings {
    /// Returns what these paths need.
    pub fn of(paths: &[PathPolicy]) -> Self {
        Self::but_for(paths, |_| AutoBuffers::default())
    }

    /// Returns what these paths need whatever is measured of them.
    pub fn of_file(paths: &[PathPolicy]) -> Self {
        Self::but_for(paths, |path| path.measured.map_or_else(Default::default, |it| it.buffers))
    }

    fn but_for(paths: &[PathPolicy], left_out: fn(&PathPolicy) -> AutoBuffers) -> Self {
        let largest = |bytes: fn(&PathPolicy, AutoBuffers) -> Option<u32>| {
            let tuned = paths.iter().filter(|path| !path.observe);
            let of_path = |path| bytes(path, left_out(path));
            u64::from(tuned.filter_map(of_path).max().unwrap_or(0))
        };
        let initial_receive_window = |path: &PathPolicy, _| {
            path.initial_receive_window_segments.map(|segments| segments * JUMBO_SEGMENT_BYTES)
        };
        let rcvbuf =
            |path: &PathPolicy, out: AutoBuffers| path.rcvbuf_bytes.filter(|_| !out.rcvbuf);
        Self {
            rcvbuf_bytes: largest(rcvbuf).max(largest(initial_receive_window)),
            sndbuf_bytes: largest(|path, out| path.sndbuf_bytes.filter(|_| !out.sndbuf)),
            // As the kernel doubles a fixed one.
            tuned_bytes: 2 * largest(|path, out| path.autotune_bytes.filter(|_| !out.autotune)),
        }
    }

    /// Raises what is too low, all of it or nothing. What an agent that died raised
    /// counts as wad's own.
    pub fn raise(self, journal: &mut Journal) -> Result<Raised, JournalError> {
        let mut raised = Raised::default();
        for (key, need_bytes) in self.needs() {
            match adjust(journal, key, need_bytes, Ordering::Greater) {
                Ok(change) => raised.0.extend(change),
                Err(error) => {
                    raised.undo(journal);
                    return Err(error);
                }
            }
        }
        Ok(raised)
    }

    /// Raises what is too low and can be raised, and says of the rest that it cannot:
    /// flows that would need more have as much as there is, and others lose nothing.
    pub fn raise_what_can_be(self, journal: &mut Journal) -> Raised {
        let mut raised = Raised::default();
        for (key, need_bytes) in self.needs() {
            match adjust(journal, key, need_bytes, Ordering::Greater) {
                Ok(change) => raised.0.extend(change),
                Err(error) => warn!(
                    "buffers stay below {need_bytes} bytes, which is what was measured: {}",
                    with_causes(&error.into())
                ),
            }
        }
        raised
    }

    /// Lowers what wad raised and no longer needs, never below what it was
    /// before wad. For when the policies that needed more are out of force.
    pub fn lower(self, journal: &mut Journal) -> Result<(), JournalError> {
        for (key, need_bytes) in self.needs() {
            adjust(journal, key, need_bytes, Ordering::Less)?;
        }
        Ok(())
    }

    /// Returns the ceilings that would change, up or down.
    pub fn moves(self, journal: &Journal) -> Result<Vec<Move>, JournalError> {
        let mut moves = Vec::new();
        for (key, need_bytes) in self.needs() {
            // Not every network namespace has the setting.
            if need_bytes > 0 || journal.has(key) {
                let Due { now, after, .. } = due(journal, key, need_bytes)?;
                moves.extend(Move::of(key, now, after));
            }
        }
        Ok(moves)
    }

    const fn needs(self) -> [(&'static str, u64); 4] {
        [
            (RMEM_MAX, self.rcvbuf_bytes),
            (WMEM_MAX, self.sndbuf_bytes),
            (TCP_RMEM, self.tuned_bytes),
            (TCP_WMEM, self.tuned_bytes),
        ]
    }
}

/// The ceilings that a change of policy raised, and what they were until then, in the
/// order in which it was done.
#[derive(Debug, Default)]
pub struct Raised(Vec<Moved>);

#[derive(Debug)]
struct Moved {
    key: &'static str,
    before: String,
    after: String,
}

impl Raised {
    /// Adds what was raised after it.
    pub fn extend(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// Puts them back, the latest first. One that someone else has set since is theirs.
    pub fn undo(self, journal: &mut Journal) {
        for moved in self.0.iter().rev() {
            if let Err(error) = moved.undo(journal) {
                warn!("{} stays raised: {}", moved.key, with_causes(&error.into()));
            }
        }
    }
}

impl Moved {
    fn undo(&self, journal: &mut Journal) -> Result<(), JournalError> {
        let now = journal.sysctl().read(self.key)?;
        if now != self.after {
            Ok(())
        } else if journal.before(self.key, &now) == Some(self.before.as_str()) {
            journal.restore(self.key)
        } else {
            journal.set(self.key, &self.before)
        }
    }
}

/// Does what has to be done about a ceiling if it is in that direction.
fn adjust(
    journal: &mut Journal,
    key: &'static str,
    need_bytes: u64,
    direction: Ordering,
) -> Result<Option<Moved>, JournalError> {
    if need_bytes == 0 && !journal.has(key) {
        // Not every network namespace has the setting.
        return Ok(None);
    }
    let now = journal.sysctl().read(key)?;
    journal.inherit(key, &now)?;
    let Due { now, after, goes_back, way } = due(journal, key, need_bytes)?;
    if way != direction {
        return Ok(None);
    }
    if goes_back {
        journal.restore(key)?;
    } else {
        journal.set(key, &after)?;
    }
    Ok(Some(Moved { key, before: now, after }))
}

/// Says what is due of a ceiling.
struct Due {
    now: String,
    after: String,
    /// It goes back to what it was before wad.
    goes_back: bool,
    /// Whether that is more or less than now.
    way: Ordering,
}

fn due(journal: &Journal, key: &'static str, need_bytes: u64) -> Result<Due, JournalError> {
    let now = journal.sysctl().read(key)?;
    let original = journal.before(key, &now).map(str::to_owned);
    let base_bytes = last_number(key, original.as_deref().unwrap_or(&now))?;
    let (now_bytes, wanted_bytes) = (last_number(key, &now)?, base_bytes.max(need_bytes));
    let way = wanted_bytes.cmp(&now_bytes);
    let (after, goes_back) = match original {
        _ if way.is_eq() => (now.clone(), false),
        Some(original) if wanted_bytes == base_bytes => (original, true),
        _ => (with_ceiling(&now, wanted_bytes), false),
    };
    Ok(Due { now, after, goes_back, way })
}

/// A setting with another last number, as the kernel prints it.
fn with_ceiling(value: &str, bytes: u64) -> String {
    let mut numbers: Vec<_> = value.split_whitespace().map(str::to_owned).collect();
    numbers.pop();
    numbers.push(bytes.to_string());
    numbers.join("\t")
}

#[cfg(test)]
mod tests {
    use wad_linux::sysctl::{Sysctl, testing};
    use wad_policy::{
        capacity::Capacity,
        config::{AutoTraits, MeasuredPath, Windows},
    };

    use super::*;

    fn number(sysctl: &Sysctl, key: &str) -> u64 {
        last_number(key, &sysctl.read(key).unwrap()).unwrap()
    }

    struct Host {
        state: tempfile::TempDir,
        _root: tempfile::TempDir,
        sysctl: Sysctl,
    }

    impl Host {
        fn new() -> Self {
            let (root, sysctl) = testing::tree(&[(RMEM_MAX, "212992"), (WMEM_MAX, "300000")]);
            Self { state: tempfile::tempdir().unwrap(), _root: root, sysctl }
        }

        fn journal(&self) -> Journal {
            Journal::open(self.state.path(), "default", self.sysctl.clone()).unwrap()
        }

        fn require(&self, journal: &mut Journal, rcvbuf_bytes: u64, sndbuf_bytes: u64) {
            let ceilings = Ceilings { rcvbuf_bytes, sndbuf_bytes, ..Ceilings::default() };
            ceilings.raise(journal).unwrap();
            ceilings.lower(journal).unwrap();
        }

        fn now(&self) -> (u64, u64) {
            (number(&self.sysctl, RMEM_MAX), number(&self.sysctl, WMEM_MAX))
        }
    }

    #[test]
    fn only_what_is_too_low_is_raised() {
        let host = Host::new();
        let mut journal = host.journal();
        host.require(&mut journal, 6_571_899, 300_000);
        assert_eq!(host.now(), (6_571_899, 300_000));
        assert_eq!(journal.changes().count(), 1);
        journal.undo().unwrap();
        assert_eq!(host.now(), (212_992, 300_000));
    }

    #[test]
    fn what_would_change_is_told_before_it_does() {
        let host = Host::new();
        let mut journal = host.journal();
        let moves = |journal: &Journal, rcvbuf_bytes, sndbuf_bytes| {
            let ceilings = Ceilings { rcvbuf_bytes, sndbuf_bytes, ..Ceilings::default() };
            ceilings.moves(journal).unwrap()
        };
        let up = [Move::of(RMEM_MAX, "212992", "8000000").unwrap()];
        assert_eq!(moves(&journal, 8_000_000, 1), up);
        assert_eq!((host.now(), journal.changes().count()), ((212_992, 300_000), 0));
        host.require(&mut journal, 8_000_000, 0);
        assert_eq!(moves(&journal, 8_000_000, 300_000), []);
        let down = [Move::of(RMEM_MAX, "8000000", "212992").unwrap()];
        assert_eq!(moves(&journal, 0, 0), down);
        assert_eq!(host.now().0, 8_000_000);
    }

    #[test]
    fn no_need_no_journal() {
        let host = Host::new();
        host.require(&mut host.journal(), 0, 1000);
        assert_eq!(std::fs::read_dir(host.state.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_longer_needed_is_put_back() {
        let host = Host::new();
        let mut journal = host.journal();
        host.require(&mut journal, 8_000_000, 8_000_000);
        host.require(&mut journal, 4_000_000, 0);
        assert_eq!(host.now(), (4_000_000, 300_000));
        host.require(&mut journal, 0, 0);
        assert_eq!(host.now(), (212_992, 300_000));
        assert_eq!(journal.changes().count(), 0);
        assert_eq!(host.journal().changes().count(), 0);
    }

    #[test]
    fn nothing_is_lowered_before_the_policy_that_needs_it_has_gone() {
        let host = Host::new();
        let mut journal = host.journal();
        host.require(&mut journal, 8_000_000, 0);
        let next =
            Ceilings { rcvbuf_bytes: 4_000_000, sndbuf_bytes: 5_000_000, ..Ceilings::default() };
        next.raise(&mut journal).unwrap();
        assert_eq!(host.now(), (8_000_000, 5_000_000));
        next.lower(&mut journal).unwrap();
        assert_eq!(host.now(), (4_000_000, 5_000_000));
    }

    #[test]
    fn what_was_raised_goes_back_to_what_it_was_just_before() {
        let host = Host::new();
        let mut journal = host.journal();
        host.require(&mut journal, 8_000_000, 0);
        let next =
            Ceilings { rcvbuf_bytes: 9_000_000, sndbuf_bytes: 5_000_000, ..Ceilings::default() };
        let raised = next.raise(&mut journal).unwrap();
        assert_eq!(host.now(), (9_000_000, 5_000_000));
        raised.undo(&mut journal);
        assert_eq!(host.now(), (8_000_000, 300_000));
        // Of the two only the first is still wad's doing.
        assert_eq!(journal.changes().count(), 1);
        assert_eq!(journal.undo().unwrap(), []);
        assert_eq!(host.now(), (212_992, 300_000));
    }

    #[test]
    fn what_someone_else_set_since_it_was_raised_is_theirs() {
        let host = Host::new();
        let mut journal = host.journal();
        let next = Ceilings { rcvbuf_bytes: 9_000_000, ..Ceilings::default() };
        let raised = next.raise(&mut journal).unwrap();
        host.sysctl.write(RMEM_MAX, "10000000").unwrap();
        raised.undo(&mut journal);
        assert_eq!(host.now().0, 10_000_000);
    }

    #[test]
    fn all_are_raised_or_none() {
        // The kernel tunes no buffers here.
        let host = Host::new();
        let mut journal = host.journal();
        let next = Ceilings { rcvbuf_bytes: 9_000_000, tuned_bytes: 1, ..Ceilings::default() };
        next.raise(&mut journal).unwrap_err();
        assert_eq!(host.now(), (212_992, 300_000));
        assert_eq!(journal.changes().count(), 0);
    }

    #[test]
    fn a_measured_number_that_cannot_be_had_takes_nothing_from_others() {
        // The kernel tunes no buffers here, and neither can wad.
        let host = Host::new();
        let mut journal = host.journal();
        let measured = MeasuredPath {
            fallback: Capacity::default(),
            buffers: AutoBuffers { autotune: true, ..AutoBuffers::default() },
            windows: Windows::default(),
            traits: AutoTraits::default(),
            aimd_is_auto: false,
            pacing_is_auto: false,
            streams: 1,
            band: 10,
        };
        let wrong = PathPolicy {
            measured: Some(measured),
            autotune_bytes: Some(1 << 30),
            ..PathPolicy::default()
        };
        let other = PathPolicy { rcvbuf_bytes: Some(9_000_000), ..PathPolicy::default() };
        let paths = [wrong.clone(), other];
        let mut raised = Ceilings::of_file(&paths).raise(&mut journal).unwrap();
        raised.extend(Ceilings::of(&paths).raise_what_can_be(&mut journal));
        assert_eq!(host.now(), (9_000_000, 300_000));
        raised.undo(&mut journal);
        assert_eq!(host.now(), (212_992, 300_000));
        // What the file itself asks for is had, or the file is refused.
        let file = [PathPolicy { measured: None, ..wrong }];
        assert!(Ceilings::of_file(&file).raise(&mut journal).is_err());
    }

    #[test]
    fn what_nobody_needs_may_be_missing() {
        let (_root, sysctl) = testing::tree(&[(WMEM_MAX, "300000")]);
        let state = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(state.path(), "default", sysctl).unwrap();
        let ceilings = Ceilings { sndbuf_bytes: 400_000, ..Ceilings::default() };
        ceilings.raise(&mut journal).unwrap();
        ceilings.lower(&mut journal).unwrap();
        assert_eq!(number(journal.sysctl(), WMEM_MAX), 400_000);
        assert!(Ceilings { rcvbuf_bytes: 1, ..ceilings }.raise(&mut journal).is_err());
    }

    #[test]
    fn after_a_crash_the_original_is_kept() {
        let host = Host::new();
        host.require(&mut host.journal(), 8_000_000, 0);
        let mut journal = host.journal();
        host.require(&mut journal, 8_000_000, 0);
        host.require(&mut journal, 9_000_000, 0);
        assert_eq!(journal.undo().unwrap(), []);
        assert_eq!(host.now(), (212_992, 300_000));
    }

    #[test]
    fn what_someone_else_set_meanwhile_is_theirs() {
        let host = Host::new();
        let mut journal = host.journal();
        host.require(&mut journal, 8_000_000, 0);
        host.sysctl.write(RMEM_MAX, "9000000").unwrap();
        host.require(&mut journal, 0, 0);
        assert_eq!(host.now().0, 9_000_000);
        // Too low for the policy: raised again, and theirs is the original now.
        host.sysctl.write(RMEM_MAX, "1000000").unwrap();
        host.require(&mut journal, 8_000_000, 0);
        assert_eq!(host.now().0, 8_000_000);
        assert_eq!(journal.undo().unwrap(), []);
        assert_eq!(host.now().0, 1_000_000);
    }

    #[test]
    fn of_three_numbers_only_the_last_is_changed() {
        let three = [(TCP_RMEM, "4096\t131072\t6291456"), (TCP_WMEM, "4096\t16384\t64000000")];
        let (_root, sysctl) = testing::tree(&three);
        let state = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(state.path(), "default", sysctl).unwrap();
        let tuned = Ceilings { tuned_bytes: 56_250_000, ..Ceilings::default() };
        tuned.raise(&mut journal).unwrap();
        let now = |journal: &Journal, key| journal.sysctl().read(key).unwrap();
        assert_eq!(now(&journal, TCP_RMEM), "4096\t131072\t56250000");
        assert_eq!(now(&journal, TCP_WMEM), three[1].1);
        Ceilings::default().lower(&mut journal).unwrap();
        assert_eq!(now(&journal, TCP_RMEM), three[0].1);
        assert_eq!(journal.changes().count(), 0);
    }
}
