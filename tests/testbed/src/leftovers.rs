//! Experiments that were killed outright leave things behind: namespaces, cgroups and
//! the agent's pins, each with its owner's process id in its name.

use std::{fs, path::Path};

use crate::{cgroup, netns};

/// Removes those whose owner is dead. What cannot be removed is left: it is in
/// nobody's way.
pub fn remove() {
    for name in names(Path::new("/run/netns")) {
        if owner_is_dead(&name, "wad-") {
            netns::delete(&name);
        }
    }
    // An algorithm is registered as long as it is pinned.
    let pins = Path::new("/sys/fs/bpf/wad");
    for name in names(pins).filter(|name| owner_is_dead(name, "t")) {
        let _ = fs::remove_dir_all(pins.join(name));
    }
    let Ok(cgroups) = cgroup::mount_point() else { return };
    for name in names(&cgroups).filter(|name| owner_is_dead(name, "wad-")) {
        cgroup::remove(&cgroups.join(name));
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Names are `<prefix><process id>-<number>...`.
fn owner_is_dead(name: &str, prefix: &str) -> bool {
    owner(name, prefix).is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists())
}

fn owner(name: &str, prefix: &str) -> Option<u32> {
    let (id, rest) = name.strip_prefix(prefix)?.split_once('-')?;
    rest.starts_with(|first: char| first.is_ascii_digit()).then(|| id.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_dead_owner_is_a_leftover() {
        assert_eq!(owner("wad-123-0-a", "wad-"), Some(123));
        assert_eq!(owner("t123-4", "t"), Some(123));
        for name in ["wad-x-0-a", "wad-123", "default", "tunnel-1", "wad-1-a"] {
            assert_eq!(owner(name, "wad-").or_else(|| owner(name, "t")), None, "{name}");
        }
        assert!(!owner_is_dead(&format!("t{}-0", std::process::id()), "t"));
        // Above any process id (PID_MAX_LIMIT is 2^22).
        assert!(owner_is_dead("t4194305-0", "t"));
    }
}
