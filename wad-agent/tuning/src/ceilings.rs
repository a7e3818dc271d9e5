//! The host's ceilings on socket buffers, in bytes: raised where a policy needs more,
//! put back when none does. Those on fixed buffers are the arguments of SO_RCVBUF and
//! SO_SNDBUF (socket(7)), before the kernel doubles them; those on buffers that the
//! kernel tunes are the buffers themselves (tcp(7)), of this network namespace.

use std::{cmp::Ordering, fmt};

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
        self.raise_but(journal, |_| false)
    }

    /// Raises what is too low, but for what this process may not change: flows that would need
    /// more have as much as there is.
    pub fn raise_what_may_be(self, journal: &mut Journal) -> Result<Raised, JournalError> {
        self.raise_but(journal, JournalError::is_not_permitted)
    }

    /// Raises what is too low and can be raised, whatever the reason is that the rest cannot.
    pub fn raise_what_can_be(self, journal: &mut Journal) -> Raised {
        self.raise_but(journal, |_| true).expect("each failure is borne")
    }

    fn raise_but(
        self,
        journal: &mut Journal,
        is_borne: fn(&JournalError) -> bool,
    ) -> Result<Raised, JournalError> {
        let mut raised = Raised::default();
        for (key, need_bytes) in self.needs() {
            match adjust(journal, key, need_bytes, Ordering::Greater) {
                Ok(change) => raised.moved.extend(change),
                Err(error) if is_borne(&error) => raised.too_low.push(TooLow::new(key, error)),
                Err(error) => {
                    raised.undo(journal);
                    return Err(error);
                }
            }
        }
        Ok(raised)
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
pub struct Raised {
    moved: Vec<Moved>,
    /// The ceilings that should have been raised as well.
    pub too_low: Vec<TooLow>,
}

#[derive(Debug)]
struct Moved {
    key: &'static str,
    before: String,
    after: String,
}

/// A ceiling that is lower than paths need, and stays so. It is shown as what goes without, and
/// why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLow {
    pub key: &'static str,
    pub why: String,
}

impl TooLow {
    fn new(key: &'static str, error: JournalError) -> Self {
        Self { key, why: with_causes(&error.into()) }
    }
}

impl fmt::Display for TooLow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stays lower than paths need: {}", self.key, self.why)
    }
}

impl Raised {
    /// Adds what was raised after it, which is for the needs of this one, too.
    pub fn extend(&mut self, later: Self) {
        self.moved.extend(later.moved);
        self.too_low = later.too_low;
    }

    /// Puts them back, the latest first. One that someone else has set since is theirs.
    pub fn undo(self, journal: &mut Journal) {
        for moved in self.moved.iter().rev() {
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
        let mut raised = Ceilings::of_file(&paths).raise_what_may_be(&mut journal).unwrap();
        raised.extend(Ceilings::of(&paths).raise_what_can_be(&mut journal));
        assert_eq!(
            raised.too_low.iter().map(|it| it.key).collect::<Vec<_>>(),
            [TCP_RMEM, TCP_WMEM]
        );
        assert_eq!(host.now(), (9_000_000, 300_000));
        raised.undo(&mut journal);
        assert_eq!(host.now(), (212_992, 300_000));
        // What the file itself asks for is had, or the file is refused.
        let file = [PathPolicy { measured: None, ..wrong }];
        assert!(Ceilings::of_file(&file).raise_what_may_be(&mut journal).is_err());
    }

    #[test]
    fn what_may_not_be_raised_leaves_paths_with_what_there_is() {
        let host = Host::new();
        testing::make_read_only(&host.sysctl, RMEM_MAX);
        let mut journal = host.journal();
        let next =
            Ceilings { rcvbuf_bytes: 9_000_000, sndbuf_bytes: 400_000, ..Ceilings::default() };
        let raised = next.raise_what_may_be(&mut journal).unwrap();
        assert_eq!(host.now(), (65_536, 400_000));
        let [too_low] = &raised.too_low[..] else { panic!("{raised:?}") };
        assert_eq!(too_low.key, RMEM_MAX);
        let told = too_low.to_string();
        for part in ["lower than paths need", "cannot set net.core.rmem_max to 9000000"] {
            assert!(told.contains(part), "{told}");
        }
        // Nothing is noted of it, however often it is tried.
        let lines = || {
            std::fs::read_dir(host.state.path())
                .unwrap()
                .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count())
        };
        next.raise_what_may_be(&mut journal).unwrap();
        assert_eq!(lines().collect::<Vec<_>>(), [1]);
        raised.undo(&mut journal);
        assert_eq!(host.now(), (65_536, 300_000));
        // All or nothing.
        assert!(next.raise(&mut journal).unwrap_err().is_not_permitted());
        // Anything else that fails is no bound of the host's.
        let untuned = Ceilings { tuned_bytes: 1, ..next };
        assert!(untuned.raise_what_may_be(&mut journal).is_err());
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
