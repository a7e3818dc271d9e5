//! Programs that cargo installs are in folders by name and version in the user's cache
//! folder, so that all clones of the repository share them.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Returns the folder of a program, whether or not it is there yet. `name` holds all
/// that the program depends on: its version, and what it is built against.
pub fn folder(root: &Path, name: &str) -> PathBuf {
    let cache = cache(env::var_os("XDG_CACHE_HOME"), env::home_dir());
    match cache {
        Some(cache) => cache.join("wad/tools").join(name),
        None => root.join("target/tools").join(name),
    }
}

/// Returns the user's cache folder, by the XDG base directory specification: a relative
/// path is to be ignored.
fn cache(named: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let named = named.map(PathBuf::from).filter(absolute);
    named.or_else(|| Some(home.filter(absolute)?.join(".cache")))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::cache;

    #[test]
    fn the_cache_is_where_the_user_has_it() {
        let home = || Some(PathBuf::from("/home/user"));
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(cache(None, home()), at("/home/user/.cache"));
        assert_eq!(cache(Some("/var/cache/user".into()), home()), at("/var/cache/user"));
        assert_eq!(cache(Some("/var/cache/user".into()), None), at("/var/cache/user"));
        assert_eq!(cache(Some("".into()), home()), at("/home/user/.cache"));
        assert_eq!(cache(Some("relative".into()), home()), at("/home/user/.cache"));
        assert_eq!(cache(None, at("")), None);
        assert_eq!(cache(None, None), None);
    }
}
