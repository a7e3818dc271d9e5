//! Says how it stands with other network namespaces, for whoever asks.

use std::sync::{Arc, Mutex};

use wad_toolbox::mutex::locked;

/// Namespaces are named in a sentence, at most.
const NAMED: usize = 8;

/// A namespace that flows of paths are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number by which `lsns` shows it.
    pub inode: u64,
    /// The paths that need anything there.
    pub paths: Vec<Arc<str>>,
    /// Why what they need does not hold there, if it does not.
    pub failed: Option<String>,
}

/// Shared by who follows flows into namespaces and who tells of it.
#[derive(Clone, Debug, Default)]
pub struct Standing(Arc<Mutex<Vec<Place>>>);

impl Standing {
    pub fn set(&self, mut places: Vec<Place>) {
        places.sort_unstable_by_key(|place| place.inode);
        *locked(&self.0) = places;
    }

    /// Returns where what a path needs holds, and where it does not, in sentences.
    pub fn of(&self, path: &str) -> Vec<String> {
        let places = locked(&self.0);
        let is_needy = |place: &&Place| place.paths.iter().any(|needy| **needy == *path);
        let (failed, held): (Vec<_>, Vec<_>) =
            places.iter().filter(is_needy).partition(|place| place.failed.is_some());
        let mut sentences = Vec::new();
        if !held.is_empty() {
            let named: Vec<_> =
                held.iter().take(NAMED).map(|place| place.inode.to_string()).collect();
            let more = match held.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = named.join(", ");
            sentences.push(format!("the same holds in network namespaces {named}{more}"));
        }
        for place in failed.iter().take(NAMED) {
            let reason = place.failed.as_deref().unwrap_or_default();
            sentences.push(format!("not in network namespace {}: {reason}", place.inode));
        }
        let unnamed = failed.len().saturating_sub(NAMED);
        if unnamed > 0 {
            sentences.push(format!("not in {unnamed} more network namespaces: the log says why"));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(inode: u64, path: &str, failed: Option<&str>) -> Place {
        Place { inode, paths: vec![Arc::from(path)], failed: failed.map(str::to_owned) }
    }

    #[test]
    fn each_path_is_told_of_its_own_namespaces() {
        let standing = Standing::default();
        assert_eq!(standing.of("p"), [""; 0]);
        let of_p = [place(9, "p", None), place(7, "p", None), place(8, "p", Some("no"))];
        standing.set(of_p.into_iter().chain([place(5, "q", None)]).collect());
        assert_eq!(
            standing.of("p"),
            ["the same holds in network namespaces 7, 9", "not in network namespace 8: no"]
        );
        assert_eq!(standing.of("q"), ["the same holds in network namespaces 5"]);
        assert_eq!(standing.of("r"), [""; 0]);
    }

    #[test]
    fn of_many_only_some_are_named() {
        let standing = Standing::default();
        let failed = (100..112).map(|inode| place(inode, "p", Some("no")));
        standing.set((0..12).map(|inode| place(inode, "p", None)).chain(failed).collect());
        let sentences = standing.of("p");
        assert!(sentences[0].ends_with("6, 7 and 4 more"), "{sentences:?}");
        assert!(sentences[9].starts_with("not in 4 more"), "{sentences:?}");
    }
}
