//! Circles among the modules of a folder.

use std::collections::BTreeMap;

use crate::{
    modules::{Name, Tree},
    paths::Path,
};

/// The modules that each of them uses, by name, with a path that says so.
type Uses<'t> = BTreeMap<&'t str, BTreeMap<&'t str, String>>;

/// Finds circles among the modules of each folder: one of each.
pub fn circles(tree: &Tree) -> Vec<String> {
    let edges = edges(tree);
    let mut circles = Vec::new();
    for parent in tree.modules.keys() {
        let mut uses = Uses::new();
        for ((from, to), why) in &edges {
            if let (Some(from), Some(to)) = (child(parent, from), child(parent, to))
                && from != to
            {
                uses.entry(from).or_default().entry(to).or_insert_with(|| why.clone());
            }
        }
        let folder = if parent.is_empty() { "crate".to_owned() } else { parent.join("::") };
        circles.extend(circle(uses).map(|found| format!("{folder}: {found}")));
    }
    circles
}

/// Returns which modules with files of their own use which, with a path that says so.
fn edges(tree: &Tree) -> BTreeMap<(Name, Name), String> {
    let mut edges = BTreeMap::new();
    for (name, module) in &tree.modules {
        for path in &module.named {
            for passed in tree.passed(name, path) {
                let between = (module.file.clone(), tree.modules[&passed].file.clone());
                edges.entry(between).or_insert_with(|| said(&module.file, path));
            }
        }
    }
    edges
}

fn said(file: &Name, path: &Path) -> String {
    format!("{} has {}", file.join("::"), path.join("::"))
}

/// Returns the module right below the parent by which another is reached.
fn child<'m>(parent: &[String], module: &'m [String]) -> Option<&'m str> {
    (module.len() > parent.len() && module.starts_with(parent))
        .then(|| module[parent.len()].as_str())
}

/// Returns a circle, if there is any: what is left when all that ends somewhere is taken
/// away.
fn circle(mut left: Uses<'_>) -> Option<String> {
    loop {
        let names: Vec<_> = left.keys().copied().collect();
        left.values_mut().for_each(|to| to.retain(|name, _| names.contains(name)));
        let before = left.len();
        left.retain(|_, to| !to.is_empty());
        if left.len() == before {
            break;
        }
    }
    let mut path = vec![*left.keys().next()?];
    let mut why = Vec::new();
    loop {
        let (next, said) = left[path.last()?].first_key_value()?;
        why.push(said.as_str());
        if let Some(begin) = path.iter().position(|name| name == next) {
            path.push(next);
            return Some(format!("{} ({})", path[begin..].join(" > "), why[begin..].join(", ")));
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let folder = files::folder(files);
        circles(&Tree::read(&folder.path().join("lib.rs")))
    }

    /// Looks for a circle of two files, of which the first has this in it.
    fn assert_found(top: &str, first: &str) {
        let files = [
            ("lib.rs", &*format!("mod a; mod b; {top}")),
            ("a.rs", first),
            ("b.rs", "use crate::a::A;"),
        ];
        let [circle] = &found(&files)[..] else { panic!("there is one circle with {first}") };
        assert!(circle.starts_with("crate: a > b > a (a has "), "{circle}");
    }

    #[test]
    fn a_circle_is_told_with_what_makes_it() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn f() { crate::c::g() }"),
            ("c.rs", "fn g(b: super::b::B) {}"),
            ("d.rs", ""),
        ];
        let expected = "crate: b > c > b (b has crate::c::g, c has super::b::B)";
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn a_circle_through_what_lies_below_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod deep; pub use self::deep::Deep;"),
            ("a/deep.rs", "use crate::b::B;"),
            ("b.rs", "use super::a::Deep;"),
        ];
        let expected = "crate: a > b > a (a::deep has crate::b::B, b has super::a::Deep)";
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn a_circle_further_down_is_found() {
        let files = [
            ("lib.rs", "mod top;"),
            ("top.rs", "mod a; mod b;"),
            ("top/a.rs", "use super::b::B;"),
            ("top/b.rs", "use super::a::A;"),
        ];
        let expected = "top: a > b > a (top::a has super::b::B, top::b has super::a::A)";
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn what_the_parent_gives_on_is_followed() {
        assert_found("pub use self::b::B;", "use super::B;");
        assert_found("pub use b::B as C;", "fn f(_: crate::C) {}");
        assert_found("pub use b::B;", "use crate::{self as top}; fn f(_: top::B) {}");
    }

    #[test]
    fn other_names_are_followed() {
        assert_found("", "use crate as x; fn f() { x::b::f() }");
        assert_found("", "use super as x; fn f() { x::b::f() }");
        assert_found("use b as c;", "fn f() { crate::c::f() }");
        assert_found("", "use crate::r#b::B;");
    }

    #[test]
    fn what_macros_and_attributes_take_is_seen() {
        assert_found("", "fn f() { println!(\"{}\", super::b::MOST) }");
        assert_found("", "m! { use crate::{b::{B}, other}; }");
        assert_found("", "m! { use crate as x; x::b::f() }");
        assert_found("", "#[serde(with = \"super::b\")] struct A;");
        assert_found("", "#[super::b::attribute] struct A;");
    }

    #[test]
    fn macros_for_other_crates_are_where_they_are_written() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "crate::m!();"),
            ("b.rs", "#[macro_export] macro_rules! m { () => { $crate::a::f() } }"),
        ];
        assert!(found(&files)[0].starts_with("crate: a > b > a"));
    }

    #[test]
    fn what_is_for_the_tests_of_other_crates_too_is_seen() {
        assert_found(
            "",
            "#[cfg(any(test, feature = \"testing\"))] mod testing { use crate::b::B; }",
        );
    }

    #[test]
    fn a_module_that_is_there_twice_is_seen_as_both() {
        assert_found("", "#[cfg(unix)] mod c { use crate::b::B; } #[cfg(not(unix))] mod c {}");
        assert_found("#[cfg(test)] mod a;", "use crate::b::B;");
    }

    #[test]
    fn parent_and_child_may_use_each_other_and_tests_anything() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod child; use self::child::C; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("a/child.rs", "use super::Parent;"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
