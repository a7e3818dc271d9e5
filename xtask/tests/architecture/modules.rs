//! The modules of what cargo builds from a file, and which paths each of them names.

use std::{
    collections::BTreeMap,
    path::{self, PathBuf},
};

use syn::{
    Attribute, ItemMod, Meta,
    buffer::TokenBuffer,
    visit::{self, Visit},
};

use crate::{
    files,
    paths::{self, Named, Path},
};

/// A module by the names that lead to it from its crate.
pub type Name = Vec<String>;

#[derive(Default)]
pub struct Tree {
    pub modules: BTreeMap<Name, Module>,
    /// The files that were read, by their modules.
    pub files: BTreeMap<Name, PathBuf>,
    /// These hide where code comes from; each with what to do instead.
    pub refused: Vec<String>,
}

#[derive(Default)]
pub struct Module {
    /// The module whose file it stands in.
    pub file: Name,
    pub named: Vec<Path>,
    /// Other names for what these paths lead to.
    pub aliases: BTreeMap<String, Vec<Path>>,
    /// Paths of which all is taken.
    pub globs: Vec<Path>,
}

impl Tree {
    /// Reads this file, and those of the modules below it.
    pub fn read(start: &path::Path) -> Self {
        let mut tree = Self::default();
        let folder = start.parent().expect("a file").to_path_buf();
        Reader { tree: &mut tree, module: Name::new(), folder, for_tests: false }.read(start);
        tree
    }
}

/// Reads a module.
struct Reader<'t> {
    tree: &'t mut Tree,
    module: Name,
    /// Modules below have their files here.
    folder: PathBuf,
    /// It is there in tests only: what it names does not count.
    for_tests: bool,
}

impl Reader<'_> {
    fn read(mut self, file: &path::Path) {
        let parsed = syn::parse_file(&files::text(file))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.tree.files.insert(self.module.clone(), file.to_path_buf());
        self.begin(self.module.clone());
        self.visit_file(&parsed);
    }

    /// Begins a module, in the file of that one. It may be there already, as one of its
    /// conditions leaves either out.
    fn begin(&mut self, file: Name) {
        let module = || Module { file, ..Module::default() };
        self.tree.modules.entry(self.module.clone()).or_insert_with(module);
    }

    fn module(&mut self) -> &mut Module {
        self.tree.modules.get_mut(&self.module).expect("it is being read")
    }

    /// Returns the name of what stands in this module.
    fn below(&self, name: &str) -> Name {
        let mut below = self.module.clone();
        below.push(name.to_owned());
        below
    }

    fn note(&mut self, named: Vec<Named>) {
        if self.for_tests {
            return;
        }
        for named in named {
            match named {
                Named::All(path) => self.module().globs.push(path),
                Named::One(path, known_as) => {
                    if let Some(alias) = known_as {
                        self.module().aliases.entry(alias).or_default().push(path.clone());
                    }
                    self.module().named.push(path);
                }
                Named::Made(path) if ["crate", "self", "super"].contains(&path[0].as_str()) => {
                    self.refuse("`crate::$name` in a macro hides what is used: take a whole path");
                }
                Named::Made(path) => self.module().named.push(path),
            }
        }
    }

    fn refuse(&mut self, what: &str) {
        let file = self.module().file.clone();
        self.tree.refused.push(format!("{}: {what}", self.tree.files[&file].display()));
    }

    /// Reads a module that has a file of its own.
    fn read_file_of(self, name: &str) {
        let files = [self.folder.with_extension("rs"), self.folder.join("mod.rs")];
        match files.iter().find(|file| file.is_file()) {
            Some(file) => self.read(file),
            None => {
                let missing = format!("no file of `mod {name}`: is it in the folder that it says?");
                let above = self.module[..self.module.len() - 1].to_vec();
                Reader { module: above, ..self }.refuse(&missing);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.note(paths::of_use(&item.tree));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|part| paths::name(&part.ident));
            self.note(vec![Named::One(names.collect(), None)]);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if item.path.segments.last().is_some_and(|name| name.ident == "include") {
            self.refuse("`include!` hides code: make it a module");
        }
        self.visit_path(&item.path);
        self.note(paths::of_macro(&TokenBuffer::new2(item.tokens.clone())));
    }

    /// A macro for other crates stands at the top of its own, whatever its file.
    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let Some(ident) = &item.ident
            && item.attrs.iter().any(|attribute| has_word(attribute, "macro_export"))
        {
            let name = paths::name(ident);
            let mut path = self.below(&name);
            path.insert(0, "crate".to_owned());
            let top = self.tree.modules.get_mut(&[][..]).expect("it is read first");
            top.aliases.entry(name).or_default().push(path);
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.note(paths::of_attribute(&TokenBuffer::new2(list.tokens.clone())));
        }
        if has_word(attribute, "macro_use") {
            self.refuse("`macro_use` hides where macros come from: `pub(crate) use` them");
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        if item.ident == "self" {
            self.refuse("`extern crate self` gives this crate another name: write `crate`");
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        item.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        if item.attrs.iter().any(|attribute| has_word(attribute, "path")) {
            self.refuse(
                "`#[path]` hides whose file it is: move the file, or make what several need a crate",
            );
            return;
        }
        let name = paths::name(&item.ident);
        let file = self.module().file.clone();
        let mut below = Reader {
            module: self.below(&name),
            folder: self.folder.join(&name),
            for_tests: self.for_tests || item.attrs.iter().any(is_for_tests),
            tree: self.tree,
        };
        match &item.content {
            None => below.read_file_of(&name),
            Some((_, items)) => {
                below.begin(file);
                items.iter().for_each(|item| below.visit_item(item));
            }
        }
    }
}

/// Tells whether an item is there in tests only. One that is there for other crates'
/// tests is not.
fn is_for_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

/// Tells whether an attribute is this one, be it under a condition.
fn has_word(attribute: &Attribute, word: &str) -> bool {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => list
            .tokens
            .to_string()
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|one| one == word),
        meta => meta.path().is_ident(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(files: &[(&str, &str)]) -> Vec<String> {
        let folder = files::folder(files);
        let tree = Tree::read(&folder.path().join("lib.rs"));
        let own = format!("{}/", folder.path().display());
        tree.refused.iter().map(|refused| refused.replace(&own, "")).collect()
    }

    fn assert_refused(text: &str, expected: &str) {
        let files = [("lib.rs", "mod a;"), ("a.rs", text), ("b.rs", ""), ("a/c.rs", "")];
        let [found] = &refused(&files)[..] else { panic!("one is refused of {text}") };
        assert!(found.starts_with("a.rs: ") && found.contains(expected), "{found}");
    }

    #[test]
    fn modules_have_files_in_the_folders_of_those_around_them() {
        let folder = files::folder(&[
            ("lib.rs", "mod a; mod b { mod within; }"),
            ("a/mod.rs", "mod c; #[cfg(test)] mod tests;"),
            ("a/c.rs", "mod deep;"),
            ("a/c/deep.rs", ""),
            ("a/tests.rs", ""),
            ("b/within.rs", ""),
        ]);
        let tree = Tree::read(&folder.path().join("lib.rs"));
        let files: Vec<_> = tree.files.keys().map(|name| name.join("::")).collect();
        assert_eq!(files, ["", "a", "a::c", "a::c::deep", "a::tests", "b::within"]);
        assert_eq!(tree.refused, [""; 0]);
    }

    #[test]
    fn a_file_that_an_attribute_names_is_refused() {
        assert_refused("#[path = \"b.rs\"] mod b;", "`#[path]`");
        assert_refused("#[cfg_attr(unix, path = \"b.rs\")] mod b;", "`#[path]`");
        assert_refused("#[cfg(test)] mod tests { #[path = \"b.rs\"] mod b; }", "`#[path]`");
    }

    #[test]
    fn what_hides_where_code_comes_from_is_refused() {
        assert_refused("include!(\"b.rs\");", "`include!`");
        assert_refused("#[macro_use] mod c;", "`macro_use`");
        assert_refused("#![macro_use]", "`macro_use`");
        assert_refused("macro_rules! m { ($x:ident) => { $crate::$x::f() } }", "`crate::$name`");
        assert_refused("extern crate self as own;", "`extern crate self`");
        assert_refused("mod b;", "no file of `mod b`");
    }
}
