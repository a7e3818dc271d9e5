//! A folder is there whole, or not at all: it is made beside its place, and then
//! renamed. Clones of the repository share such folders, so one makes it and the others
//! wait.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

/// Makes sure that the folder is there and works. What is half there, or does not work
/// any more, is made anew.
pub fn ensure(
    folder: &Path,
    works: impl Fn(&Path) -> bool,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    if works(folder) {
        return Ok(());
    }
    let parent = folder.parent().expect("tools are in a folder");
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    let _lock = lock(&beside(folder, "lock"))?;
    // Another one may have made it meanwhile.
    if works(folder) {
        return Ok(());
    }
    let partial = beside(folder, "partial");
    remove(&partial)?;
    fs::create_dir(&partial).with_context(|| partial.display().to_string())?;
    make(&partial)?;
    if !works(&partial) {
        bail!("{}: was just made, and does not work", partial.display());
    }
    remove(folder)?;
    fs::rename(&partial, folder).with_context(|| folder.display().to_string())
}

/// Returns the lock once no other process has it. The kernel gives it back when this
/// process ends, however it does.
fn lock(path: &Path) -> Result<File> {
    let context = || path.display().to_string();
    let file = File::create(path).with_context(context)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another process that has {}", path.display());
            file.lock().with_context(context)?;
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        Ok(()) => {}
    }
    Ok(file)
}

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::Path,
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use anyhow::{Result, bail};

    use super::ensure;

    fn works(folder: &Path) -> bool {
        fs::read(folder.join("program")).is_ok_and(|bytes| bytes == b"whole")
    }

    fn make(folder: &Path) -> Result<()> {
        Ok(fs::write(folder.join("program"), "whole")?)
    }

    #[test]
    fn what_is_corrupted_is_made_anew() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("tools/linker-1.2");
        ensure(&folder, works, make).unwrap();
        assert!(works(&folder));
        ensure(&folder, works, |_| bail!("is made again")).unwrap();

        fs::write(folder.join("program"), "who").unwrap();
        fs::write(folder.join("left over"), "").unwrap();
        ensure(&folder, works, make).unwrap();
        assert!(works(&folder));
        assert!(!folder.join("left over").exists());
    }

    #[test]
    fn what_is_half_made_is_not_there() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("linker-1.2");
        let interrupted = |folder: &Path| {
            fs::write(folder.join("half"), "")?;
            bail!("the disk is full")
        };
        ensure(&folder, works, interrupted).unwrap_err();
        assert!(!folder.exists());
        ensure(&folder, works, |_| Ok(())).unwrap_err();
        assert!(!folder.exists());
        ensure(&folder, works, make).unwrap();
        assert!(works(&folder));
        assert!(!folder.join("half").exists());
    }

    #[test]
    fn of_many_at_once_one_makes_it() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("linker-1.2");
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let slowly = |folder: &Path| {
                        made.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(20));
                        make(folder)
                    };
                    ensure(&folder, works, slowly).unwrap();
                    assert!(works(&folder));
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }
}
