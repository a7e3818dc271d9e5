//! Cgroups are followed while paths depend on them.

use std::{
    future::pending,
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use nix::errno::Errno;
use tokio::{io::unix::AsyncFd, time::sleep_until};
use tracing::{info, warn};
use wad_linux::{
    cgroup,
    cgroup_tree::{Cgroups, MAX_CGROUPS, Tree},
};
use wad_policy::config::PathPolicy;
use wad_toolbox::{attempts::Attempts, seldom::Seldom};

/// The hierarchy, from the first policy on that has a pattern.
pub struct Followed {
    state: State,
    was_partial: bool,
    /// That some are not followed. Where there is just no room, one comes and goes.
    said_partial: Seldom,
    /// How it goes with following them: where they are found and cannot be read, that has failed
    /// still.
    attempts: Attempts,
}

enum State {
    /// No path depends on them.
    Idle(Cgroups),
    Follows {
        root: PathBuf,
        tree: AsyncFd<Tree>,
    },
    /// They could not be followed any more, and are going to be looked for again.
    Lost {
        root: PathBuf,
        /// The cgroups that were known last.
        cgroups: Cgroups,
    },
}

impl Followed {
    pub const fn nothing() -> Self {
        let state = State::Idle(Cgroups::new());
        let (said_partial, attempts) = (Seldom::new(), Attempts::new());
        Self { state, was_partial: false, said_partial, attempts }
    }

    /// Follows them if these paths depend on them. Needs a tokio runtime.
    pub fn follow_for(&mut self, paths: &[PathPolicy]) -> anyhow::Result<()> {
        if depend(paths) && !matches!(self.state, State::Follows { .. }) {
            let root = cgroup::root()?;
            self.state = State::Follows { tree: open(&root)?, root };
        }
        self.tell();
        Ok(())
    }

    /// Follows them no more, unless these paths, which are in force now, depend on them.
    pub fn leave_unless_for(&mut self, paths: &[PathPolicy]) {
        if !depend(paths) {
            (self.state, self.attempts) = (State::Idle(Cgroups::new()), Attempts::new());
            self.tell();
        }
    }

    /// Returns the cgroups that there are, or that were known last.
    pub fn cgroups(&self) -> &Cgroups {
        match &self.state {
            State::Idle(none) => none,
            State::Follows { tree, .. } => tree.get_ref().cgroups(),
            State::Lost { cgroups, .. } => cgroups,
        }
    }

    /// Waits until there are others; for ever where none are followed. Where the kernel tells of
    /// none any more, they are looked for again.
    pub async fn changed(&mut self) {
        loop {
            let is_changed = match &mut self.state {
                State::Idle(_) => pending().await,
                State::Follows { tree, .. } => {
                    let read = read(tree).await;
                    if read.is_ok() && self.attempts.worked() {
                        info!("cgroups are followed again");
                    }
                    read
                }
                State::Lost { .. } => {
                    if let Some(again) = self.attempts.again() {
                        sleep_until(again.into()).await;
                    }
                    self.find_again();
                    Ok(matches!(self.state, State::Follows { .. }))
                }
            };
            match is_changed {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => self.lose(&error),
            }
        }
        self.tell();
    }

    /// Keeps what was known last.
    fn lose(&mut self, error: &io::Error) {
        let State::Follows { root, .. } = &self.state else { return };
        let (root, cgroups) = (root.clone(), self.cgroups().clone());
        self.state = State::Lost { root, cgroups };
        self.failed(error);
    }

    fn find_again(&mut self) {
        let State::Lost { root, .. } = &mut self.state else { return };
        match open(root) {
            Ok(tree) => self.state = State::Follows { root: std::mem::take(root), tree },
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &io::Error) {
        if self.attempts.failed(Instant::now()) {
            warn!(
                "paths for cgroups and pods match by the cgroups that were known last, until these \
                 can be followed again: {error}"
            );
        }
    }

    fn tell(&mut self) {
        let is_partial = match &self.state {
            State::Follows { tree, .. } => tree.get_ref().is_partial(),
            State::Idle(_) | State::Lost { .. } => false,
        };
        if is_partial && !self.was_partial && self.said_partial.may_say() {
            warn!(
                "not all cgroups can be followed: there are more than {MAX_CGROUPS}, or than \
                 fs.inotify.max_user_watches allows, or some that the agent may not read: paths do \
                 not match those"
            );
        }
        self.was_partial = is_partial;
    }
}

fn open(root: &Path) -> io::Result<AsyncFd<Tree>> {
    let tree = Tree::open(root)?;
    // SAFETY: it owns its descriptor, which stays open for as long as it lives; whoever replaces
    // it registers the new one.
    Ok(unsafe { AsyncFd::register(tree) }?)
}

/// Waits for events. Returns whether the tree is another one by them.
async fn read(tree: &mut AsyncFd<Tree>) -> io::Result<bool> {
    let mut ready = tree.readable_mut().await?;
    match ready.get_inner_mut().read() {
        Err(error) if error.raw_os_error() == Some(Errno::EAGAIN as i32) => {
            ready.clear_ready();
            Ok(false)
        }
        read => read,
    }
}

fn depend(paths: &[PathPolicy]) -> bool {
    paths.iter().any(|path| path.cgroup.is_some())
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn names(followed: &Followed) -> Vec<&str> {
        followed.cgroups().keys().filter_map(|path| path.to_str()).collect()
    }

    #[tokio::test]
    async fn cgroups_that_cannot_be_followed_are_as_they_were_and_looked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cgroup");
        let make = |name: &str| fs::create_dir_all(root.join(name)).unwrap();
        make("a.service");
        let state = State::Follows { root: root.clone(), tree: open(&root).unwrap() };
        let mut followed = Followed { state, ..Followed::nothing() };
        make("b.service");
        timeout(SOON, followed.changed()).await.expect("an event");
        let both = ["", "a.service", "b.service"];
        assert_eq!(names(&followed), both);

        followed.lose(&Errno::EIO.into());
        assert_eq!(names(&followed), both);
        // At first in vain: there is no folder of that name.
        let State::Lost { root: lost, .. } = &mut followed.state else { panic!("it is lost") };
        *lost = folder.path().join("a file");
        fs::write(&lost, "").unwrap();
        followed.find_again();
        assert_eq!(names(&followed), both);
        let State::Lost { root: lost, .. } = &mut followed.state else { panic!("it is lost") };
        lost.clone_from(&root);
        make("c.service");
        timeout(SOON, followed.changed()).await.expect("it is found again");
        assert_eq!(names(&followed), [&both[..], &["c.service"]].concat());
        make("d.service");
        timeout(SOON, followed.changed()).await.expect("an event");
        assert_eq!(names(&followed).len(), 5);
    }

    #[tokio::test]
    async fn cgroups_that_are_found_and_not_read_are_looked_for_less_and_less_often() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::create_dir_all(root.path().join(name)).unwrap();
        let state =
            State::Follows { root: root.path().to_owned(), tree: open(root.path()).unwrap() };
        let mut followed = Followed { state, ..Followed::nothing() };
        for _ in 0..9 {
            followed.lose(&Errno::EIO.into());
            followed.find_again();
            assert!(matches!(followed.state, State::Follows { .. }));
        }
        let again = followed.attempts.again().expect("it has failed");
        assert!(again > Instant::now() + Duration::from_secs(10));
        // Each is said that comes after they were followed.
        make("a.service");
        timeout(SOON, followed.changed()).await.expect("an event");
        assert!(followed.attempts.failed(Instant::now()));
    }
}
