//! The paths that a source names, as they are written: by `use`, and in what a macro or
//! an attribute takes, which is no syntax tree.

use syn::{
    Ident, UseTree,
    buffer::{Cursor, TokenBuffer},
    ext::IdentExt as _,
};

/// A path, name by name, with `crate`, `self` and `super`.
pub type Path = Vec<String>;

#[derive(Debug, PartialEq, Eq)]
pub enum Named {
    /// Something, which is known by this name from here on, if that is said.
    One(Path, Option<String>),
    /// All that is in there: `::*`.
    All(Path),
    /// Something in there, by a name that only who calls the macro knows: `::$name`.
    Made(Path),
}

/// Returns a name without what lets it be a keyword.
pub fn name(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// Returns what a `use` names.
pub fn of_use(tree: &UseTree) -> Vec<Named> {
    let mut found = Vec::new();
    add_use(&[], tree, &mut found);
    found
}

fn add_use(before: &[String], tree: &UseTree, found: &mut Vec<Named>) {
    let with = |ident| [before, &[name(ident)]].concat();
    match tree {
        UseTree::Path(path) => add_use(&with(&path.ident), &path.tree, found),
        UseTree::Name(last) => {
            let path = with(&last.ident);
            let known_as = path.iter().rfind(|name| *name != "self").cloned();
            found.push(Named::One(path, known_as));
        }
        UseTree::Rename(rename) => {
            found.push(Named::One(with(&rename.ident), Some(name(&rename.rename))));
        }
        UseTree::Glob(_) => found.push(Named::All(before.to_vec())),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| add_use(before, tree, found));
        }
    }
}

/// Returns what the tokens of a macro name, if all that looks like a path is one.
pub fn of_macro(tokens: &TokenBuffer) -> Vec<Named> {
    let mut scan = Scan { has_texts: false, found: Vec::new() };
    scan.tokens(tokens.begin(), &[]);
    scan.found
}

/// Returns what the tokens of an attribute name, in texts too, as serde takes them.
pub fn of_attribute(tokens: &TokenBuffer) -> Vec<Named> {
    let mut scan = Scan { has_texts: true, found: Vec::new() };
    scan.tokens(tokens.begin(), &[]);
    scan.found
}

struct Scan {
    /// Texts may be paths.
    has_texts: bool,
    found: Vec<Named>,
}

impl Scan {
    /// Looks at tokens, which stand in a group behind this path.
    fn tokens(&mut self, mut rest: Cursor<'_>, before: &[String]) {
        while let Some((_, next)) = rest.token_tree() {
            rest = if let Some((ident, next)) = rest.ident() {
                self.path([before, &[name(&ident)]].concat(), next)
            } else if let Some((inner, _, _, next)) = rest.any_group() {
                self.tokens(inner, &[]);
                next
            } else {
                if self.has_texts
                    && let Some((literal, _)) = rest.literal()
                {
                    self.text(&literal.to_string());
                }
                next
            };
        }
    }

    /// Looks at what follows a path's beginning. Returns the tokens behind it.
    fn path<'t>(&mut self, mut path: Path, mut rest: Cursor<'t>) -> Cursor<'t> {
        while let Some(next) = behind(rest, "::") {
            if let Some((ident, next)) = next.ident() {
                path.push(name(&ident));
                rest = next;
            } else if let Some(next) = behind(next, "*") {
                self.found.push(Named::All(path));
                return next;
            } else if let Some(next) = behind(next, "$") {
                self.found.push(Named::Made(path));
                return next;
            } else if let Some((inner, _, _, next)) = next.any_group() {
                self.tokens(inner, &path);
                return next;
            } else {
                // Of generic arguments.
                rest = next;
                break;
            }
        }
        let mut known_as = None;
        if let Some((word, next)) = rest.ident()
            && word == "as"
            && let Some((ident, next)) = next.ident()
        {
            known_as = Some(name(&ident));
            rest = next;
        }
        self.found.push(Named::One(path, known_as));
        rest
    }

    fn text(&mut self, literal: &str) {
        let text = literal.trim_matches('"');
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if text.contains("::") && text.split("::").all(is_name) {
            self.found.push(Named::One(text.split("::").map(str::to_owned).collect(), None));
        }
    }
}

/// Returns what follows these marks, if the tokens begin with them.
fn behind<'t>(mut rest: Cursor<'t>, marks: &str) -> Option<Cursor<'t>> {
    for mark in marks.chars() {
        let (found, next) = rest.punct()?;
        if found.as_char() != mark {
            return None;
        }
        rest = next;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, known_as: Option<&str>) -> Named {
        let path = path.split("::").map(str::to_owned).collect();
        Named::One(path, known_as.map(str::to_owned))
    }

    fn in_use(text: &str) -> Vec<Named> {
        of_use(&syn::parse_str::<syn::ItemUse>(text).expect("it is Rust").tree)
    }

    fn tokens(text: &str) -> TokenBuffer {
        TokenBuffer::new2(text.parse().expect("tokens"))
    }

    #[test]
    fn a_use_names_each_of_its_groups_and_other_names() {
        assert_eq!(
            in_use("use crate::{a::{self, A}, b as c};"),
            [
                one("crate::a::self", Some("a")),
                one("crate::a::A", Some("A")),
                one("crate::b", Some("c"))
            ]
        );
        assert_eq!(in_use("use super as up;"), [one("super", Some("up"))]);
        assert_eq!(in_use("use crate::r#a;"), [one("crate::a", Some("a"))]);
        let all = Named::All(vec!["super".to_owned(), "a".to_owned()]);
        assert_eq!(in_use("use super::a::*;"), [all]);
    }

    #[test]
    fn a_macro_names_what_looks_like_a_path() {
        assert_eq!(
            of_macro(&tokens("[1, $crate::a::f::<u8>(super :: B), \"crate::text\"]")),
            [one("crate::a::f", None), one("u8", None), one("super::B", None)]
        );
    }

    #[test]
    fn a_macro_may_have_groups_other_names_and_globs() {
        assert_eq!(
            of_macro(&tokens("{ use crate::{a::{A}, b as c}; }")),
            [one("use", None), one("crate::a::A", None), one("crate::b", Some("c"))]
        );
        let all = Named::All(vec!["super".to_owned()]);
        assert_eq!(of_macro(&tokens("use super::*;")), [one("use", None), all]);
        let made = Named::Made(vec!["crate".to_owned()]);
        assert_eq!(of_macro(&tokens("$crate::$x::f()")), [made, one("x::f", None)]);
    }

    #[test]
    fn an_attribute_may_name_a_path_in_a_text() {
        assert_eq!(
            of_attribute(&tokens("with = \"super::a::text\", rename = \"a: b\"")),
            [one("with", None), one("super::a::text", None), one("rename", None)]
        );
    }
}
