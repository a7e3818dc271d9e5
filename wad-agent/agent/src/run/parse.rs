//! Reads the configuration for this host as it turns out to be.

use anyhow::Result;
use tracing::{debug, info};
use wad_policy::config::{Config, Host, Loadable, PathPolicy, Texts};
use wad_tuning::kernel_modules;

use super::Options;

/// Returns the configuration with congestion controls that can be had. In a list, one that
/// the kernel has as a module but does not load gives way to the next: so the kernel is
/// asked, until it refuses none of those that are chosen. One that a path names alone stays,
/// for the policy to fail by. The host is that of the last look.
pub fn configuration(texts: &Texts, options: &Options) -> Result<(Config, Host)> {
    let mut host = Host::read()?;
    loop {
        let mut config = Config::check(texts, &host)?;
        let Some((name, why)) = kernel_modules::refused(&config.paths, &host) else {
            options.complete(&mut config);
            return Ok((config, host));
        };
        host.refused.insert(name, why);
    }
}

/// Tells which paths have another congestion control than they would rather have, and why
/// names may have been taken that the kernel turns out not to know.
pub fn tell_choices(paths: &[PathPolicy], host: &Host) {
    if let Loadable::Unknown(why) = &host.loadable {
        debug!("which congestion controls the kernel has as modules is not known: {why}");
    }
    for path in paths {
        if let Some(words) = path.origin.passed_over_words() {
            info!("path {}: {words}", path.name);
        }
    }
}
