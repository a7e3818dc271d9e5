//! Cgroups are followed while paths depend on them.

use std::{
    future::pending,
    io,
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};
use wad_linux::{
    cgroup,
    cgroup_tree::{Cgroups, MAX_CGROUPS, Tree},
};
use wad_policy::config::PathPolicy;
use wad_toolbox::{back_off::back_off, seldom::Seldom};

/// The hierarchy, from the first policy on that has a pattern.
pub struct Followed {
    state: State,
    said_partial: bool,
    /// That they cannot be followed.
    said_lost: Seldom,
}

enum State {
    /// No path depends on them.
    Idle(Cgroups),
    Follows {
        root: PathBuf,
        tree: AsyncFd<Tree>,
    },
    Lost(Lost),
}

/// The hierarchy could not be followed any more, and is going to be looked for again.
struct Lost {
    root: PathBuf,
    /// The cgroups that were known last.
    cgroups: Cgroups,
    /// How often it was looked for in vain.
    failures: u32,
    again: Instant,
}

impl Followed {
    pub const fn nothing() -> Self {
        let state = State::Idle(Cgroups::new());
        Self { state, said_partial: false, said_lost: Seldom::new() }
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
            self.state = State::Idle(Cgroups::new());
            self.tell();
        }
    }

    /// Returns the cgroups that there are, or that were known last.
    pub fn cgroups(&self) -> &Cgroups {
        match &self.state {
            State::Idle(none) => none,
            State::Follows { tree, .. } => tree.get_ref().cgroups(),
            State::Lost(Lost { cgroups, .. }) => cgroups,
        }
    }

    /// Waits until there are others; for ever where none are followed. Where the kernel tells of
    /// none any more, they are looked for again.
    pub async fn changed(&mut self) {
        loop {
            let is_changed = match &mut self.state {
                State::Idle(_) => pending().await,
                State::Follows { tree, .. } => read(tree).await,
                State::Lost(lost) => {
                    sleep_until(lost.again).await;
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
        self.state = State::Lost(Lost { root, cgroups, failures: 0, again: Instant::now() });
        self.tell_lost(error);
    }

    fn find_again(&mut self) {
        let State::Lost(lost) = &mut self.state else { return };
        match open(&lost.root) {
            Ok(tree) => {
                let root = std::mem::take(&mut lost.root);
                self.state = State::Follows { root, tree };
                info!("cgroups are followed again");
            }
            Err(error) => {
                lost.again = Instant::now() + back_off(lost.failures);
                lost.failures = lost.failures.saturating_add(1);
                self.tell_lost(&error);
            }
        }
    }

    fn tell_lost(&mut self, error: &io::Error) {
        if self.said_lost.may_say() {
            warn!(
                "paths for cgroups and pods match by the cgroups that were known last, until these \
                 can be followed again: {error}"
            );
        }
    }

    fn tell(&mut self) {
        let is_partial = match &self.state {
            State::Follows { tree, .. } => tree.get_ref().is_partial(),
            State::Idle(_) | State::Lost(_) => false,
        };
        if is_partial && !self.said_partial {
            warn!(
                "not all cgroups can be followed: there are more than {MAX_CGROUPS}, or than \
                 fs.inotify.max_user_watches allows, or some that the agent may not read: paths do \
                 not match those"
            );
        }
        self.said_partial = is_partial;
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
        let State::Lost(lost) = &mut followed.state else { panic!("it is lost") };
        lost.root = folder.path().join("a file");
        fs::write(&lost.root, "").unwrap();
        followed.find_again();
        assert_eq!(names(&followed), both);
        let State::Lost(lost) = &mut followed.state else { panic!("it is lost") };
        assert!(lost.failures == 1 && lost.again > Instant::now());
        lost.root = root.clone();
        make("c.service");
        timeout(SOON, followed.changed()).await.expect("it is found again");
        assert_eq!(names(&followed), [&both[..], &["c.service"]].concat());
        make("d.service");
        timeout(SOON, followed.changed()).await.expect("an event");
        assert_eq!(names(&followed).len(), 5);
    }
}
