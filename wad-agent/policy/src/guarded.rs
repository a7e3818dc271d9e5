//! Which paths have a guard: those of a file, and those that are made beside it.

use crate::{
    config::{GuardedPaths, PathGuards, PathPolicy},
    heard, learned,
};

/// Says whether a path has a guard.
#[must_use]
pub fn is_guarded(guards: &PathGuards, path: &PathPolicy) -> bool {
    // Its flows are given nothing.
    if path.observe {
        return false;
    }
    match &guards.paths {
        GuardedPaths::Auto => {
            let PathPolicy { allow, congestion, measured, name, .. } = path;
            let is_made = [learned::NAME_PREFIX, heard::NAME_PREFIX];
            allow.is_some()
                || congestion.is_some()
                || measured.is_some()
                || is_made.iter().any(|prefix| name.starts_with(prefix))
        }
        GuardedPaths::All => true,
        GuardedPaths::None => false,
        GuardedPaths::Named(names) => names.contains(&path.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, testing::host};

    fn guarded(guard: &str) -> Vec<String> {
        let paths = [
            ("plain", "sndbuf = '4MiB'"),
            ("consented", "allow = 'aggressive'\ninitial_window = 20"),
            ("law", "congestion = 'wad_aimd'"),
            ("kernels", "congestion = ['vegas', 'cubic']"),
            ("measured", "mode = 'measured'\nsndbuf = 'auto'\nbandwidth = '1Gbit'\nrtt = '9ms'"),
            ("watched", "mode = 'observe'\ncongestion = 'reno'"),
        ];
        let paths = paths.iter().zip(1..).map(|((name, keys), n)| {
            format!("[[path]]\nname = '{name}'\nremote = '10.{n}.0.0/16'\n{keys}\n")
        });
        let text = guard.to_owned() + &paths.collect::<String>();
        let config = Config::parse("file", &text, &host()).unwrap_or_else(|e| panic!("{e}"));
        let guarded = config.paths.iter().filter(|path| is_guarded(&config.guard, path));
        guarded.map(|path| path.name.clone()).collect()
    }

    #[test]
    fn paths_with_a_law_and_those_that_may_hurt_are_guarded_or_others_by_name() {
        let by_themselves = ["consented", "law", "kernels", "measured"];
        assert_eq!(guarded(""), by_themselves);
        let all: Vec<_> = ["plain"].into_iter().chain(by_themselves).collect();
        assert_eq!(guarded("[guard]\npaths = 'all'\n"), all);
        assert_eq!(guarded("[guard]\npaths = 'none'\n"), [""; 0]);
        assert_eq!(guarded("[guard]\npaths = ['plain']\n"), ["plain"]);
        let config = PathGuards::default();
        let of = |name: String| is_guarded(&config, &PathPolicy { name, ..PathPolicy::default() });
        assert!(of(format!("{}192.0.2.0/24", learned::NAME_PREFIX)) && !of("bob".to_owned()));
    }
}
