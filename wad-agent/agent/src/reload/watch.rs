//! Says when the configuration's file, or one of the folder beside it, may have changed:
//! written in place, renamed over by an editor, or reached by a symbolic link that was
//! changed, as the `..data` of a ConfigMap in Kubernetes.
//!
//! Folders are watched, not files, as a file renamed over is another file: those
//! of each link on the way, and the one where the file is in the end. Whether the
//! text is another one is for the caller to see.

use std::{
    collections::{HashMap, VecDeque},
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd as _, AsRawFd, RawFd},
        unix::fs::MetadataExt as _,
    },
    path::{Component, Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep_until},
};
use wad_policy::config::files;

/// A change is over when for so long nothing happened, or in any case after
/// [`LONGEST`].
const QUIET: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(2);

/// Links are followed as far as the kernel follows them (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

const EVENTS: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// A name in a folder, on the way to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    folder: PathBuf,
    name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Is(OsString),
    /// Any that a file of the folder beside the configuration's may have.
    OfFragment,
}

impl Name {
    fn fits(&self, name: &OsStr) -> bool {
        match self {
            Self::Is(own) => own == name,
            Self::OfFragment => files::is_fragment(Path::new(name)),
        }
    }
}

/// The watch on a configuration's files.
pub struct Watch {
    inotify: AsyncFd<Descriptor>,
    file: PathBuf,
    /// A folder may hold more than one place, under one descriptor.
    places: HashMap<WatchDescriptor, Vec<Place>>,
    /// Since when something has been happening, and when it is to be looked at.
    pending: Option<(Instant, Instant)>,
}

impl Watch {
    /// Needs a tokio runtime. What happened before counts as a change.
    pub fn new(file: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        // SAFETY: it owns its descriptor, which stays open and the same for as long as
        // it lives.
        let inotify = unsafe { AsyncFd::register(Descriptor(inotify)) }?;
        let now = Instant::now();
        let mut watch = Self {
            inotify,
            file: std::path::absolute(file)?,
            places: HashMap::new(),
            pending: Some((now, now)),
        };
        watch.follow()?;
        Ok(watch)
    }

    /// Returns when there may be another text, after it has come to rest. May be
    /// dropped and called again.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            let due = self.pending.map(|(_, due)| due);
            let rest = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let is_due = tokio::select! {
                () = rest => true,
                ready = self.inotify.readable() => {
                    let mut ready = ready?;
                    match ready.get_inner().0.read_events() {
                        Ok(events) => {
                            if events.iter().any(|event| concerns(&self.places, event)) {
                                self.pending = Some(postponed(self.pending, Instant::now()));
                            }
                        }
                        Err(Errno::EAGAIN) => ready.clear_ready(),
                        Err(error) => return Err(error.into()),
                    }
                    false
                }
            };
            if is_due {
                self.pending = None;
                // Before the caller looks: what happens after that is seen.
                return self.follow();
            }
        }
    }

    /// Watches the ways to the files as they are now.
    fn follow(&mut self) -> io::Result<()> {
        let inotify = &self.inotify.get_ref().0;
        let mut places: HashMap<_, Vec<Place>> = HashMap::new();
        let mut last_error = None;
        let folder = files::folder(&self.file);
        // Where it cannot be read, it may be when it changes.
        let fragments = files::fragments(&self.file).unwrap_or_default();
        let all = [&self.file, &folder].into_iter().chain(&fragments);
        let any = Place { folder: folder.clone(), name: Name::OfFragment };
        for place in all.flat_map(|file| way(file)).chain([any]) {
            match inotify.add_watch(&place.folder, EVENTS) {
                Ok(descriptor) => places.entry(descriptor).or_default().push(place),
                // A folder may be gone, until the link to it is changed.
                Err(error) => last_error = Some(error),
            }
        }
        for old in self.places.keys().filter(|old| !places.contains_key(old)) {
            // It fails for a folder that is gone, with its watch.
            let _ = inotify.rm_watch(*old);
        }
        self.places = places;
        match last_error {
            Some(error) if self.places.is_empty() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Whether an event is one of a place on the way.
fn concerns(places: &HashMap<WatchDescriptor, Vec<Place>>, event: &InotifyEvent) -> bool {
    // Some got lost, or it is about a folder itself.
    let Some(name) = &event.name else {
        return !event.mask.contains(AddWatchFlags::IN_IGNORED);
    };
    let Some(places) = places.get(&event.wd) else { return false };
    let mut here = places.iter().filter(|place| place.name.fits(name));
    // A new file is empty until it is written and closed; a link, or a folder, is whole at
    // once.
    here.any(|place| {
        !event.mask.contains(AddWatchFlags::IN_CREATE)
            || fs::symlink_metadata(place.folder.join(name))
                .is_ok_and(|made| made.is_symlink() || made.is_dir() || made.nlink() > 1)
    })
}

fn postponed(pending: Option<(Instant, Instant)>, now: Instant) -> (Instant, Instant) {
    let begun = pending.map_or(now, |(begun, _)| begun);
    (begun, (now + QUIET).min(begun + LONGEST))
}

/// Every link on the way to a file, and the file.
fn way(file: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    let mut links = 0;
    let mut at = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(file).collect();
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let is_file = ahead.is_empty();
        match fs::read_link(&next) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                places.push(Place { folder: at.clone(), name: Name::Is(name) });
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                    ahead.push_front(name);
                }
            }
            _ if is_file => places.push(Place { folder: at.clone(), name: Name::Is(name) }),
            _ => at = next,
        }
    }
    places
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    });
    names.map(OsStr::to_owned)
}

/// The descriptor is wrapped as tokio wants it.
struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    /// Longer than what a change takes to be told.
    const WHILE: Duration = Duration::from_millis(600);

    /// A watch that has told of what was before.
    async fn watch(file: &Path) -> Watch {
        let mut watch = Watch::new(file).unwrap();
        tells(&mut watch).await;
        watch
    }

    async fn tells(watch: &mut Watch) {
        timeout(SOON, watch.changed()).await.expect("a change is told").unwrap();
    }

    async fn is_silent(watch: &mut Watch) {
        assert!(timeout(WHILE, watch.changed()).await.is_err(), "told of nothing");
    }

    #[tokio::test]
    async fn a_file_written_or_renamed_over_is_told_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wad.toml");
        fs::write(&file, "a").unwrap();
        let mut watch = watch(&file).await;
        fs::write(&file, "b").unwrap();
        tells(&mut watch).await;
        // As editors do, more than once.
        for text in ["c", "d"] {
            fs::write(folder.path().join("wad.toml~"), text).unwrap();
            fs::rename(folder.path().join("wad.toml~"), &file).unwrap();
            tells(&mut watch).await;
        }
        fs::write(folder.path().join("other.toml"), "e").unwrap();
        is_silent(&mut watch).await;
    }

    #[tokio::test]
    async fn many_changes_are_told_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wad.toml");
        fs::write(&file, "").unwrap();
        let mut watch = watch(&file).await;
        for _ in 0..100 {
            fs::write(&file, "a").unwrap();
        }
        tells(&mut watch).await;
        is_silent(&mut watch).await;
    }

    /// `..data` points to a folder of its own for each version; the old one is
    /// removed.
    #[tokio::test]
    async fn the_swap_of_a_config_map_is_told_each_time() {
        let volume = tempfile::tempdir().unwrap();
        let at = |name: &str| volume.path().join(name);
        let version = |name: &str| {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("wad.toml"), name).unwrap();
            symlink(name, at("..data_tmp")).unwrap();
            fs::rename(at("..data_tmp"), at("..data")).unwrap();
        };
        version("..1");
        symlink("..data/wad.toml", at("wad.toml")).unwrap();
        let mut watch = watch(&at("wad.toml")).await;
        for (old, new) in [("..1", "..2"), ("..2", "..3")] {
            version(new);
            fs::remove_dir_all(at(old)).unwrap();
            tells(&mut watch).await;
            assert_eq!(fs::read_to_string(at("wad.toml")).unwrap(), new);
            is_silent(&mut watch).await;
        }
    }

    #[tokio::test]
    async fn a_file_that_goes_and_comes_back_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wad.toml");
        fs::write(&file, "a").unwrap();
        let mut watch = watch(&file).await;
        fs::remove_file(&file).unwrap();
        tells(&mut watch).await;
        fs::write(&file, "b").unwrap();
        tells(&mut watch).await;
    }

    #[tokio::test]
    async fn files_of_the_folder_beside_it_are_told_of_from_its_making_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wad.toml");
        fs::write(&file, "a").unwrap();
        let mut watch = watch(&file).await;
        let more = folder.path().join("conf.d");
        fs::create_dir(&more).unwrap();
        fs::write(more.join("10-a.toml"), "a").unwrap();
        tells(&mut watch).await;
        fs::write(more.join("20-b.toml"), "b").unwrap();
        tells(&mut watch).await;
        fs::write(more.join(".20-b.toml.swp"), "b").unwrap();
        fs::write(more.join("note.md"), "b").unwrap();
        is_silent(&mut watch).await;
        fs::remove_file(more.join("10-a.toml")).unwrap();
        tells(&mut watch).await;
    }

    /// A ConfigMap that is mounted as the folder.
    #[tokio::test]
    async fn the_swap_of_the_folders_config_map_is_told_each_time() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("conf.d");
        fs::create_dir(&volume).unwrap();
        let version = |name: &str| {
            fs::create_dir(volume.join(name)).unwrap();
            fs::write(volume.join(name).join("a.toml"), name).unwrap();
            symlink(name, volume.join("..data_tmp")).unwrap();
            fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
        };
        version("..1");
        symlink("..data/a.toml", volume.join("a.toml")).unwrap();
        let mut watch = watch(&root.path().join("wad.toml")).await;
        for (old, new) in [("..1", "..2"), ("..2", "..3")] {
            version(new);
            fs::remove_dir_all(volume.join(old)).unwrap();
            tells(&mut watch).await;
            is_silent(&mut watch).await;
        }
    }

    #[test]
    fn the_way_goes_through_every_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("one")).unwrap();
        fs::write(root.join("one/wad.toml"), "").unwrap();
        symlink("one", root.join("current")).unwrap();
        symlink(root.join("current/wad.toml"), root.join("link.toml")).unwrap();
        let place = |folder: &str, name: &str| Place {
            folder: root.join(folder),
            name: Name::Is(name.into()),
        };
        assert_eq!(
            way(&root.join("one/../link.toml")),
            [place("", "link.toml"), place("", "current"), place("one", "wad.toml")]
        );
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(way(&root.join("loop")).len(), MOST_LINKS + 1);
    }

    #[test]
    fn a_file_that_changes_all_the_time_is_looked_at_in_the_end() {
        let begun = Instant::now();
        let mut pending = None;
        for n in 0..100 {
            pending = Some(postponed(pending, begun + n * QUIET / 2));
        }
        assert_eq!(pending, Some((begun, begun + LONGEST)));
    }
}
