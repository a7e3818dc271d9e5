//! The layers hold: no crate depends on one above it, and within a crate no files go in
//! a circle. ARCHITECTURE.md says what each layer is for.
//!
//! A module may use what lies below it in its own folder, and children may use their
//! parent: so among the modules of one folder, each taken with all that lies below it,
//! there must be an order. What only tests see (`cfg(test)`) may look at more.
//!
//! All crates are read, with all that cargo builds of them: libraries, programs, BPF
//! programs, examples, tests, fuzz targets, build scripts. What hides where code comes
//! from is refused, so that nothing goes unseen but what a procedural macro makes up.

mod circles;
mod crates;
mod files;
mod follow;
mod layers;
mod modules;
mod paths;

use std::{path::Path, sync::LazyLock};

use circles::circles;
use layers::Layers;
use modules::Tree;

const LAYERS: Layers<'_> = Layers {
    lowest_first: &[
        "wad-toolchain",
        "wad-common",
        "wad-struct-ops",
        "wad-svg",
        "wad-toolbox",
        "wad-evidence",
        "wad-simulation",
        "wad-http",
        "wad-instruments",
        "wad-linux",
        "wad-policy",
        "wad-tuning",
        "wad-observing",
        "wad-probing",
        "wad-peers",
        "wad-agent",
        "wad-commands",
        "wad",
        "wad-testbed",
        "wad-lab",
        "wad-soak",
        "wad-e2e-attribute",
        "wad-e2e",
        "wad-fuzz",
        "xtask",
        // The BPF programs are for the kernel: nothing depends on them.
        "wad-ebpf",
    ],
    alone: &[
        ("wad-ebpf", &["wad-common"]),
        // It could be offered to aya.
        ("wad-struct-ops", &[]),
        ("wad-svg", &[]),
        // Pure: it is given the time and what flows have shown.
        ("wad-evidence", &["wad-common"]),
        // Pure, too.
        ("wad-simulation", &["wad-common"]),
        ("wad-toolchain", &[]),
        ("wad-common", &[]),
        ("xtask", &["wad-toolchain"]),
        // Tests of the whole look at it from outside.
        ("wad-testbed", &[]),
        ("wad-e2e-attribute", &[]),
        ("wad-lab", &["wad-common", "wad-svg", "wad-testbed"]),
        ("wad-soak", &["wad-testbed"]),
        ("wad-e2e", &["wad-common", "wad-testbed", "wad-lab", "wad-soak", "wad-e2e-attribute"]),
    ],
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("in the repository")
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_crate_is_looked_at() {
    assert_none(&crates::refused(root(), &crates::read(root())));
}

#[test]
fn no_crate_depends_on_one_above_it() {
    assert_none(&LAYERS.upward(&crates::read(root())));
}

/// The modules of everything that cargo builds.
static TREES: LazyLock<Vec<Tree>> = LazyLock::new(|| {
    let crates = crates::read(root());
    crates.iter().flat_map(|own| &own.roots).map(|start| Tree::read(start)).collect()
});

#[test]
fn every_file_is_looked_at() {
    let read = TREES.iter().flat_map(|tree| tree.files.values()).collect();
    assert_none(&files::refused(root(), &read));
    let hidden = |tree: &Tree| [tree.refused.clone(), tree.globs()].concat();
    assert_none(&TREES.iter().flat_map(hidden).collect::<Vec<_>>());
}

#[test]
fn no_files_of_a_crate_go_in_a_circle() {
    let of_tree = |tree: &Tree| {
        let start = tree.files[&Vec::new()].display();
        circles(tree).into_iter().map(|circle| format!("{start}: {circle}")).collect::<Vec<_>>()
    };
    assert_none(&TREES.iter().flat_map(of_tree).collect::<Vec<_>>());
}
