//! Says which paths have a guard.

use std::fmt;

use wad_policy::{config::Config, guarded::is_guarded};

use super::{SHOWN, lists, write_more};

/// The names of the paths that have a guard.
pub fn guarded(config: &Config) -> Vec<String> {
    let guarded = config.paths.iter().filter(|path| is_guarded(&config.guard, path));
    guarded.map(|path| path.name.clone()).collect()
}

/// Writes them, and what becomes of those that hurt.
pub fn write(f: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    let mut names = guarded(config);
    if names.is_empty() {
        return Ok(());
    }
    let count = names.len();
    names.truncate(SHOWN);
    let title = if config.guard.settings.dry_run {
        "guarded, and named where they hurt"
    } else {
        "guarded, and back at the kernel's defaults where they hurt"
    };
    lists::write(f, title, &names)?;
    write_more(f, count)
}
