//! Pins are where an instance's maps, programs and links are pinned:
//! `/sys/fs/bpf/wad/INSTANCE/LAYOUT/`.
//!
//! A folder is complete once the tuner's link is in it, which is pinned last and
//! removed first.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use wad_linux::{bpffs::BPFFS, lock::Lock};
use wad_struct_ops::CongestionControl;
use wad_toolbox::own_folder::{self, FolderError};

use super::objects;
use crate::instance::Instance;

pub const TUNER_LINK: &str = "tuner_link";
pub const ENDS_LINK: &str = "ends_link";
pub const ACCEPTS_LINK: &str = "accepts_link";
pub const SIGNALS_LINK: &str = "signals_link";
pub const OPTIONS_LINK: &str = "options_link";
/// Links lead to their programs by numbers only, which takes CAP_SYS_ADMIN.
pub const TUNER_PROGRAM: &str = "tuner_program";
/// So do arrays of maps. The pins begin so, and end with a number.
const POLICIES_PREFIX: &str = "policies_";
const ALGORITHM_PREFIX: &str = "wad_";

/// Says why the pins could not be had.
#[derive(Debug, Error)]
pub enum PinsError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot read the folder {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot remove {}: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
}

/// The pins of one instance.
#[derive(Clone)]
pub struct Pins {
    root: PathBuf,
    /// The folder of this build's layout.
    current: PathBuf,
}

impl Pins {
    /// Makes the pins: only whoever holds the instance's lock may change them.
    pub fn new(_held: &Lock, instance: &Instance) -> Self {
        let root = root(instance);
        Self { current: root.join(objects::layout()), root }
    }

    pub fn map(&self, name: &str) -> PathBuf {
        self.current.join(name)
    }

    pub fn tuner_link(&self) -> PathBuf {
        self.current.join(TUNER_LINK)
    }

    /// Returns the pin of the tuner's program.
    pub fn tuner_program(&self) -> PathBuf {
        self.current.join(TUNER_PROGRAM)
    }

    /// Returns one of the two pins of policies.
    pub fn policies(&self, place: u64) -> PathBuf {
        self.current.join(format!("{POLICIES_PREFIX}{place}"))
    }

    /// Returns the pin of the link of what sees the end of flows that ran already,
    /// where that is needed.
    pub fn ends_link(&self) -> PathBuf {
        self.current.join(ENDS_LINK)
    }

    /// Returns the pin of the link of what sees who accepts a connection.
    pub fn accepts_link(&self) -> PathBuf {
        self.current.join(ACCEPTS_LINK)
    }

    /// Returns the pin of the link of what counts congestion signals.
    pub fn signals_link(&self) -> PathBuf {
        self.current.join(SIGNALS_LINK)
    }

    /// Returns the pin of the link of what swallows the options of applications,
    /// where a path overrides them.
    pub fn options_link(&self) -> PathBuf {
        self.current.join(OPTIONS_LINK)
    }

    /// Returns the folder of this build's layout.
    pub fn folder(&self) -> &Path {
        &self.current
    }

    /// Returns the pin of this name: a congestion control's is what it is registered as.
    pub fn at(&self, name: &str) -> PathBuf {
        self.current.join(name)
    }

    /// Returns the names of all that is pinned for as long as tuning goes on, and so not of
    /// policies: of nothing where the folder is gone.
    pub fn names(&self) -> Result<Vec<String>, PinsError> {
        if !self.current.exists() {
            return Ok(Vec::new());
        }
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        let names = entries(&self.current)?.into_iter().filter_map(name);
        Ok(names.filter(|name| !name.starts_with(POLICIES_PREFIX)).collect())
    }

    pub fn make_folder(&self) -> Result<(), PinsError> {
        let ours = self.current.ancestors().take_while(|folder| *folder != Path::new(BPFFS));
        let ours: Vec<_> = ours.collect();
        Ok(ours.into_iter().rev().try_for_each(own_folder::make_private)?)
    }

    /// Refuses folders in which others could change what is pinned, or put what is then
    /// believed to be ours.
    pub fn guard(&self) -> Result<(), PinsError> {
        self.others()
            .unwrap_or_default()
            .iter()
            .chain([self])
            .try_for_each(|pins| own_folder::guard(&pins.current))?;
        Ok(())
    }

    /// Returns the pins of other builds.
    pub fn others(&self) -> Result<Vec<Self>, PinsError> {
        let others = entries(&self.root)?.into_iter().filter(|folder| *folder != self.current);
        Ok(others.map(|current| Self { root: self.root.clone(), current }).collect())
    }

    /// Removes what other builds left.
    pub fn remove_others(&self) -> Result<(), PinsError> {
        self.others()?.iter().try_for_each(|other| remove_folder(&other.current))
    }

    /// Removes what is there of this build.
    pub fn remove_current(&self) -> Result<(), PinsError> {
        if self.current.exists() {
            remove_folder(&self.current)?;
        }
        self.remove_empty();
        Ok(())
    }

    /// Takes everything out of the kernel.
    pub fn remove(&self) -> Result<(), PinsError> {
        if !self.root.exists() {
            return Ok(());
        }
        for folder in entries(&self.root)? {
            remove_folder(&folder)?;
        }
        self.remove_empty();
        Ok(())
    }

    /// Removes the folders around, as far as nothing else is in them.
    fn remove_empty(&self) {
        if fs::remove_dir(&self.root).is_ok() {
            let _ = self.root.parent().map(fs::remove_dir);
        }
    }
}

/// Whether tuning of this instance is in the kernel, with or without an agent.
pub fn exist(instance: &Instance) -> bool {
    entries(&root(instance)).is_ok_and(|folders| !folders.is_empty())
}

fn root(instance: &Instance) -> PathBuf {
    Path::new(BPFFS).join("wad").join(instance.name())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, PinsError> {
    fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(|source| PinsError::Read { path: folder.to_owned(), source })
}

/// The link first, so that no new flow comes under programs that are going;
/// then the algorithms; then the maps. A link that another build has taken stays, by
/// its other pin.
fn remove_folder(folder: &Path) -> Result<(), PinsError> {
    let link = folder.join(TUNER_LINK);
    if link.exists() {
        remove(&link, |path| fs::remove_file(path))?;
    }
    let (algorithms, others): (Vec<_>, Vec<_>) = entries(folder)?.into_iter().partition(|path| {
        path.file_name().is_some_and(|name| is_algorithm(&name.to_string_lossy()))
    });
    for path in algorithms {
        remove(&path, CongestionControl::unpin)?;
    }
    for path in others {
        remove(&path, |path| fs::remove_file(path))?;
    }
    remove(folder, |path| fs::remove_dir(path))
}

/// Whether a pin of this name is one of a congestion control.
pub fn is_algorithm(name: &str) -> bool {
    name.starts_with(ALGORITHM_PREFIX)
}

fn remove(path: &Path, by: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), PinsError> {
    by(path).map_err(|source| PinsError::Remove { path: path.to_owned(), source })
}
