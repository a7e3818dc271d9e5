//! Configurations made up by libFuzzer, and the host that they are for.

use std::sync::LazyLock;

use super::{
    Host, Loadable,
    texts::{Text, Texts},
};

/// The host of the fuzz targets is the same on every machine.
pub static HOST: LazyLock<Host> = LazyLock::new(|| {
    let owned = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    Host {
        congestion_controls: owned(["reno", "cubic"]),
        loadable: Loadable::Known(owned(["bbr", "vegas"])),
        ..Host::default()
    }
});

/// Returns the texts of several files, where a zero ends each.
#[must_use]
pub fn texts(text: &str) -> Texts {
    let file = |n: usize| if n == 0 { "wad.toml".to_owned() } else { format!("conf.d/{n}.toml") };
    let texts = text.split('\0').enumerate();
    Texts::all(texts.map(|(n, text)| Text { file: file(n), text: text.to_owned() }).collect())
}
