//! Shows what a flow may hold of memory, how many such flows fit, and what becomes of
//! more.

use std::{
    fmt::{self, Display},
    fs,
};

use wad_linux::sockstat;
use wad_policy::config::{Config, PathPolicy};
use wad_toolbox::amounts::Bytes;

/// The kernel does not care what TCP holds below the first of these, in pages (tcp(7)).
const TCP_MEM: &str = "/proc/sys/net/ipv4/tcp_mem";

/// The flows of a configuration may hold so much.
pub struct Memory {
    /// All of them together; None where this network namespace does not say.
    limit_bytes: Option<u64>,
    is_default: bool,
    /// One of them at most, with the name of its path; None where no buffer is set.
    most: Option<(String, u64)>,
}

/// Reads what is the default on this host.
pub fn default_bytes() -> Option<u64> {
    let pages: u64 = fs::read_to_string(TCP_MEM).ok()?.split_whitespace().next()?.parse().ok()?;
    Some(pages * sockstat::page_bytes())
}

impl Memory {
    pub fn of(config: &Config, default_bytes: Option<u64>) -> Self {
        let tuned = config.paths.iter().filter(|path| !path.observe);
        let most = tuned.max_by_key(|path| flow_bytes(path)).map(|path| (path, flow_bytes(path)));
        let configured = config.limits.max_memory_bytes;
        Self {
            limit_bytes: configured.or(default_bytes),
            is_default: configured.is_none(),
            most: most
                .filter(|(_, bytes)| *bytes > 0)
                .map(|(path, bytes)| (path.name.clone(), bytes)),
        }
    }
}

/// Returns what both buffers of a flow come to at most, doubled as the kernel does.
fn flow_bytes(path: &PathPolicy) -> u64 {
    let doubled = |bytes: Option<u32>| 2 * u64::from(bytes.unwrap_or(0));
    doubled(path.sndbuf_bytes) + doubled(path.rcvbuf_bytes) + 2 * doubled(path.autotune_bytes)
}

impl Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((path, most_bytes)) = &self.most else { return Ok(()) };
        writeln!(f, "a flow holds {} of memory at most (path {path})", Bytes(*most_bytes))?;
        let Some(limit_bytes) = self.limit_bytes else {
            return writeln!(f, "max_memory is not set, and tcp_mem can't be read here");
        };
        let fit = limit_bytes / most_bytes;
        let whose = if self.is_default { "the first number of tcp_mem" } else { "as configured" };
        writeln!(
            f,
            "max_memory is {} ({whose}), in which {fit} such fit whole;",
            Bytes(limit_bytes)
        )?;
        writeln!(f, "near it buffers grow no more, beyond it the largest shrink, none goes untuned")
    }
}

#[cfg(test)]
mod tests {
    use wad_policy::config::testing::host;

    use super::*;

    fn told(text: &str, default_bytes: Option<u64>) -> String {
        let config = Config::parse("wad.toml", text, &host()).expect("valid");
        Memory::of(&config, default_bytes).to_string()
    }

    const PATHS: &str = "[[path]]\nname = 'small'\nremote = '10.0.0.1'\nsndbuf = '1MiB'\n\
                         [[path]]\nname = 'large'\nremote = '10.0.0.2'\nsndbuf = '4MiB'\n\
                         rcvbuf = '4MiB'\n";

    #[test]
    fn the_largest_flow_is_told_and_how_many_fit() {
        let text = told(PATHS, Some(50 << 20));
        let expected = "a flow holds 16.0 MiB of memory at most (path large)\n\
                        max_memory is 50.0 MiB (the first number of tcp_mem), in which 3 such fit \
                        whole;\n\
                        near it buffers grow no more, beyond it the largest shrink, none goes \
                        untuned\n";
        assert_eq!(text, expected);
        let configured = told(&format!("[limits]\nmax_memory = '1GiB'\n{PATHS}"), None);
        assert!(
            configured.contains("is 1.0 GiB (as configured), in which 64 such"),
            "{configured}"
        );
    }

    #[test]
    fn without_buffers_there_is_nothing_to_tell() {
        assert_eq!(told("[[path]]\nname = 'p'\nremote = '10.0.0.1'\ndscp = 8\n", Some(1)), "");
        assert!(told(PATHS, None).contains("tcp_mem can't be read here"));
    }
}
