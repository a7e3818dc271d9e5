//! The host that configurations made up by libFuzzer are for.

use std::sync::LazyLock;

use super::Host;

/// The host of the fuzz targets is the same on every machine.
pub static HOST: LazyLock<Host> = LazyLock::new(|| {
    let owned = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    Host {
        congestion_controls: owned(["reno", "cubic"]),
        loadable: owned(["bbr", "vegas"]),
        ..Host::default()
    }
});
