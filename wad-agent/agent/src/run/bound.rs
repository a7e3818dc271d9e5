//! The bounds on what measurements make of buffers: the memory of tuned flows, and
//! what the kernel gives by itself.

use anyhow::{Context as _, Result};
use wad_linux::{sockstat, sysctl::Sysctl};
use wad_policy::{config::Config, tuning_plan::KernelBuffers};
use wad_tuning::journal::Journal;

/// Returns how much memory TCP is to hold at most: as configured, or up to where the
/// kernel does not care about it (`tcp_mem[0]`, in pages; tcp(7)).
pub fn max_memory_bytes(config: &Config, sysctl: &Sysctl) -> Result<u64> {
    if let Some(bytes) = config.limits.max_memory_bytes {
        return Ok(bytes);
    }
    let tcp_mem = sysctl.read("net.ipv4.tcp_mem").context(
        "no bound on the memory of flows: run wad in the host's network namespace, or set \
         [limits] max_memory",
    )?;
    let pages: u64 = tcp_mem
        .split_whitespace()
        .next()
        .and_then(|pages| pages.parse().ok())
        .with_context(|| format!("net.ipv4.tcp_mem is {tcp_mem:?}, not three numbers"))?;
    Ok(pages * sockstat::page_bytes())
}

/// Up to where the kernel sizes buffers by itself (tcp(7)), without what wad has made
/// of that; zero where the namespace does not say.
pub fn kernel_buffers(journal: &Journal) -> KernelBuffers {
    let most = |key| {
        let now = journal.sysctl().read(key).ok()?;
        let sizes = journal.before(key, &now).unwrap_or(&now);
        sizes.split_whitespace().nth(2)?.parse().ok()
    };
    KernelBuffers {
        sndbuf_bytes: most("net.ipv4.tcp_wmem").unwrap_or(0),
        rcvbuf_bytes: most("net.ipv4.tcp_rmem").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use wad_linux::sysctl::testing;
    use wad_policy::config::Host;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("wad.toml", text, &Host::default()).unwrap()
    }

    #[test]
    fn memory_is_bounded_as_configured_or_by_the_kernel() {
        let (_root, sysctl) = testing::tree(&[("net.ipv4.tcp_mem", "100\t4000\t5000")]);
        let bytes = 100 * sockstat::page_bytes();
        assert_eq!(max_memory_bytes(&config(""), &sysctl).unwrap(), bytes);
        let configured = config("[limits]\nmax_memory = '64MiB'\n");
        assert_eq!(max_memory_bytes(&configured, &sysctl).unwrap(), 64 << 20);

        let (_root, elsewhere) = testing::tree(&[]);
        assert_eq!(max_memory_bytes(&configured, &elsewhere).unwrap(), 64 << 20);
        let error = format!("{:#}", max_memory_bytes(&config(""), &elsewhere).unwrap_err());
        assert!(error.contains("[limits] max_memory") && error.contains("tcp_mem"), "{error}");
    }
}
