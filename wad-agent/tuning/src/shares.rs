//! Shares of new flows that paths have their policies for: what the file says of a path is a bound,
//! and within it an experiment or a guard gives it less for a while.

use std::collections::HashMap;

use wad_common::share;
use wad_policy::config::PathPolicy;

/// Shares are in parts of [`share::ALL`], which paths have that are not named.
#[derive(Debug, Default)]
pub struct Shares {
    /// By the file.
    bounds: HashMap<String, u32>,
    given: HashMap<String, u32>,
}

impl Shares {
    /// Returns what a path would have that is given this share.
    pub fn if_given(&self, path: &str, share: u32) -> u32 {
        self.bounds.get(path).map_or(share, |bound| share.min(*bound))
    }

    /// Gives a path this share from now on, all for no less than its bound. Returns what that
    /// leaves it.
    pub fn give(&mut self, path: &str, share: u32) -> u32 {
        if share >= share::ALL {
            self.given.remove(path);
        } else {
            self.given.insert(path.to_owned(), share);
        }
        self.if_given(path, share)
    }

    /// Returns what a path has whose bound is this.
    pub fn within(&self, path: &str, bound: u32) -> u32 {
        self.given.get(path).map_or(bound, |given| bound.min(*given))
    }

    /// Has the bounds of these paths, which have come into force. What others were given is over.
    pub fn follow(&mut self, paths: &[PathPolicy]) {
        let bound = |path: &PathPolicy| path.share.map(|share| (path.name.clone(), share));
        self.bounds = paths.iter().filter_map(bound).collect();
        self.given.retain(|name, _| paths.iter().any(|path| path.name == *name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(share: Option<u32>) -> PathPolicy {
        PathPolicy { name: "p".to_owned(), share, ..PathPolicy::default() }
    }

    /// A set with this path comes into force; its policy is for so much then.
    fn install(shares: &mut Shares, share: Option<u32>) -> u32 {
        let has = shares.within("p", share.unwrap_or(share::ALL));
        shares.follow(&[path(share)]);
        has
    }

    #[test]
    fn a_share_of_the_file_is_a_bound_and_another_one_holds_at_once() {
        let mut shares = Shares::default();
        assert_eq!(install(&mut shares, Some(500)), 500);
        // A guard's trial, and its end.
        assert_eq!(shares.give("p", 250), 250);
        assert_eq!(install(&mut shares, Some(500)), 250, "a trial goes on over a reload");
        assert_eq!(shares.give("p", share::ALL), 500);
        assert_eq!(install(&mut shares, Some(50)), 50);
        assert_eq!(install(&mut shares, None), share::ALL);
    }

    #[test]
    fn the_end_of_an_experiment_leaves_no_more_than_the_bound() {
        let mut shares = Shares::default();
        install(&mut shares, None);
        assert_eq!(shares.give("p", 0), 0);
        // The reload that ends it has a share.
        install(&mut shares, Some(50));
        assert_eq!(shares.give("p", share::ALL), 50);
    }

    #[test]
    fn a_path_that_is_gone_has_nothing_when_it_comes_back() {
        let mut shares = Shares::default();
        install(&mut shares, None);
        shares.give("p", 7);
        shares.follow(&[]);
        assert_eq!(install(&mut shares, None), share::ALL);
    }
}
