//! Says how it stands with other network namespaces, for whoever asks.

use std::sync::{Arc, Mutex};

use wad_toolbox::mutex::locked;

use crate::routes;

/// Namespaces are named in a sentence, at most.
const NAMED: usize = 8;

/// A namespace that flows of paths are in.
#[derive(Clone, Debug)]
pub struct Place {
    /// The number by which `lsns` shows it.
    pub inode: u64,
    /// The paths that need anything there.
    pub paths: Vec<Arc<str>>,
    /// Why what they need does not hold there, if it does not.
    pub failed: Option<String>,
    /// How it stands with its routes.
    pub routes: routes::Standing,
}

impl Place {
    /// Returns why what the paths need does not hold, and what is left alone of one path's
    /// routes.
    fn lacks(&self, path: &str) -> (Option<String>, Vec<String>) {
        match self.routes.get() {
            routes::RoutesState::Failed(reason) if self.failed.is_none() => {
                (Some(format!("its routes are left alone: {reason}")), Vec::new())
            }
            state => (self.failed.clone(), state.left_alone(path)),
        }
    }
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
        let (mut held, mut failed, mut left_alone) = (Vec::new(), Vec::new(), Vec::new());
        for place in places.iter().filter(|it| it.paths.iter().any(|needy| **needy == *path)) {
            let inode = place.inode;
            let (reason, left) = place.lacks(path);
            match reason {
                Some(reason) => failed.push(format!("not in network namespace {inode}: {reason}")),
                None => held.push(inode.to_string()),
            }
            left_alone.extend(
                left.into_iter().map(|what| format!("in network namespace {inode} {what}")),
            );
        }
        let mut sentences = Vec::new();
        if !held.is_empty() {
            let more = match held.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            held.truncate(NAMED);
            let named = held.join(", ");
            sentences.push(format!("the same holds in network namespaces {named}{more}"));
        }
        let unnamed = failed.len().saturating_sub(NAMED);
        sentences.extend(failed.into_iter().take(NAMED));
        if unnamed > 0 {
            sentences.push(format!("not in {unnamed} more network namespaces: the log says why"));
        }
        sentences.extend(left_alone.into_iter().take(NAMED));
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(inode: u64, path: &str, failed: Option<&str>) -> Place {
        let (paths, failed) = (vec![Arc::from(path)], failed.map(str::to_owned));
        Place { inode, paths, failed, routes: routes::Standing::default() }
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
    fn routes_that_are_left_alone_are_named_with_their_namespace() {
        let standing = Standing::default();
        let places = [place(7, "p", None), place(8, "p", None)];
        let report = routes::Report {
            refused: ["p", "q"]
                .map(|path| routes::Refused { path: Arc::from(path), what: format!("{path}'s") })
                .to_vec(),
            ..routes::Report::default()
        };
        places[0].routes.set(routes::RoutesState::InForce(report));
        places[1].routes.set(routes::RoutesState::Failed("no rules".to_owned()));
        standing.set(places.to_vec());
        assert_eq!(
            standing.of("p"),
            [
                "the same holds in network namespaces 7",
                "not in network namespace 8: its routes are left alone: no rules",
                "in network namespace 7 p's"
            ]
        );
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
