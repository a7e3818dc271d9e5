//! Where paths lead: through other names, to the module that has what is named.

use std::collections::BTreeSet;

use crate::modules::{Name, Tree};

impl Tree {
    /// Returns all modules on the way of a path that one of them names, its end included:
    /// where it leads by `use`, not only where it seems to.
    pub fn passed(&self, from: &Name, path: &[String]) -> BTreeSet<Name> {
        let mut way = Way { tree: self, passed: BTreeSet::new(), followed: BTreeSet::new() };
        way.follow(from.clone(), path);
        way.passed
    }

    /// Finds what takes all that a module of its own crate has: nobody sees what it uses.
    pub fn globs(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, module) in &self.modules {
            let is_own = |path: &&Vec<String>| {
                ["crate", "self", "super"].contains(&path[0].as_str())
                    || self.passed(name, path).iter().any(|passed| passed != name)
            };
            let file = || self.files[&module.file].display();
            found.extend(module.globs.iter().filter(is_own).map(|path| {
                format!("{}: `{}::*` hides what is used: name it", file(), path.join("::"))
            }));
        }
        found
    }
}

struct Way<'t> {
    tree: &'t Tree,
    passed: BTreeSet<Name>,
    /// The other names that were followed, and where: each once, as some go in circles.
    followed: BTreeSet<(Name, String)>,
}

impl Way<'_> {
    fn follow(&mut self, mut here: Name, path: &[String]) {
        for (place, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => here.clear(),
                "self" => {}
                "super" => drop(here.pop()),
                _ => {
                    self.follow_aliases(&here, name, &path[place + 1..]);
                    here.push(name.clone());
                    if !self.tree.modules.contains_key(&here) {
                        // An item of the module that it stands in, or of another crate.
                        return;
                    }
                }
            }
            self.passed.insert(here.clone());
        }
    }

    fn follow_aliases(&mut self, here: &Name, name: &str, rest: &[String]) {
        let Some(paths) = self.tree.modules.get(here).and_then(|it| it.aliases.get(name)) else {
            return;
        };
        if self.followed.insert((here.clone(), name.to_owned())) {
            for path in paths {
                self.follow(here.clone(), &[path, rest].concat());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let folder = files::folder(files);
        Tree::read(&folder.path().join("lib.rs"))
    }

    fn passed(tree: &Tree, from: &str, path: &str) -> Vec<String> {
        let names = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
        let passed = tree.passed(&names(from), &names(path));
        passed.iter().map(|name| name.join("::")).collect()
    }

    #[test]
    fn a_path_leads_to_the_module_that_has_what_it_names() {
        let tree = tree(&[
            ("lib.rs", "mod a; mod b; pub use b::{B, C as D};"),
            ("a.rs", "use crate as top;"),
            ("b.rs", "mod deep; pub use self::deep::C;"),
            ("b/deep.rs", ""),
        ]);
        assert_eq!(passed(&tree, "a", "super::B"), ["", "b"]);
        assert_eq!(passed(&tree, "a", "crate::D"), ["", "b", "b::deep"]);
        assert_eq!(passed(&tree, "a", "top::b::f"), ["", "b"]);
        assert_eq!(passed(&tree, "b::deep", "super::super::a"), ["", "a", "b"]);
        assert_eq!(passed(&tree, "a", "std::fmt"), [""; 0]);
    }

    #[test]
    fn names_in_a_circle_end() {
        let tree = tree(&[
            ("lib.rs", "mod a; mod b; use a::a;"),
            ("a.rs", "pub use crate::b::x; pub fn a() {}"),
            ("b.rs", "pub use crate::a::x;"),
        ]);
        assert_eq!(passed(&tree, "b", "crate::a::x"), ["", "a", "b"]);
    }

    #[test]
    fn a_glob_of_our_own_is_refused_but_in_tests() {
        let globs = |text: &str| tree(&[("lib.rs", "mod a;"), ("a.rs", text)]).globs();
        for text in ["use super::*;", "use super as up; use up::*;", "m! { use crate::*; }"] {
            let [found] = &globs(text)[..] else { panic!("one is refused of {text}") };
            assert!(found.contains("::*` hides what is used"), "{found}");
        }
        assert_eq!(globs("#[cfg(test)] mod tests { use super::*; }"), [""; 0]);
        assert_eq!(globs("use other::*; enum A {} use A::*;"), [""; 0]);
        assert_eq!(globs("#[cfg(any(test, feature = \"x\"))] mod t { use super::*; }").len(), 1);
    }
}
