//! Cgroups are followed while paths depend on them.

use std::io;

use nix::errno::Errno;
use tokio::io::unix::AsyncFd;
use tracing::warn;
use wad_linux::{
    cgroup,
    cgroup_tree::{Cgroups, MAX_CGROUPS, Tree},
};
use wad_policy::config::PathPolicy;

/// The hierarchy, from the first policy on that has a pattern.
pub struct Followed {
    tree: Option<AsyncFd<Tree>>,
    none: Cgroups,
    said_partial: bool,
}

impl Followed {
    pub const fn nothing() -> Self {
        Self { tree: None, none: Cgroups::new(), said_partial: false }
    }

    /// Follows them if these paths depend on them. Needs a tokio runtime.
    pub fn follow_for(&mut self, paths: &[PathPolicy]) -> anyhow::Result<()> {
        if depend(paths) && self.tree.is_none() {
            let tree = Tree::open(&cgroup::root()?)?;
            // SAFETY: it owns its descriptor, which stays open for as long as it lives;
            // whoever replaces it registers the new one.
            self.tree = Some(unsafe { AsyncFd::register(tree) }?);
        }
        self.tell();
        Ok(())
    }

    /// Follows them no more, unless these paths, which are in force now, depend on them.
    pub fn leave_unless_for(&mut self, paths: &[PathPolicy]) {
        if !depend(paths) {
            self.tree = None;
            self.tell();
        }
    }

    pub fn cgroups(&self) -> &Cgroups {
        self.tree.as_ref().map_or(&self.none, |tree| tree.get_ref().cgroups())
    }

    /// Waits until there are others; for ever where none are followed.
    pub async fn changed(&mut self) -> io::Result<()> {
        let Some(tree) = &mut self.tree else { return std::future::pending().await };
        loop {
            let mut ready = tree.readable_mut().await?;
            match ready.get_inner_mut().read() {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) if error.raw_os_error() == Some(Errno::EAGAIN as i32) => {
                    ready.clear_ready();
                }
                Err(error) => {
                    drop(ready);
                    // Until the next policy: it would be said for ever.
                    self.tree = None;
                    return Err(error);
                }
            }
        }
        self.tell();
        Ok(())
    }

    fn tell(&mut self) {
        let is_partial = self.tree.as_ref().is_some_and(|tree| tree.get_ref().is_partial());
        if is_partial && !self.said_partial {
            warn!(
                "there are more cgroups than can be followed, {MAX_CGROUPS} or what \
                 fs.inotify.max_user_watches allows: paths do not match those beyond"
            );
        }
        self.said_partial = is_partial;
    }
}

fn depend(paths: &[PathPolicy]) -> bool {
    paths.iter().any(|path| path.cgroup.is_some())
}
