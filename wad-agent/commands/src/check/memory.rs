//! Shows what a flow may hold of memory, how many such flows fit, and what becomes of
//! more.

use std::{
    fmt::{self, Display},
    fs,
};

use schemars::JsonSchema;
use serde::Serialize;
use wad_linux::sockstat;
use wad_policy::config::{AutoBuffers, Config, PathPolicy};
use wad_toolbox::amounts::Bytes;

/// The kernel does not care what TCP holds below the first of these, in pages (tcp(7)).
const TCP_MEM: &str = "/proc/sys/net/ipv4/tcp_mem";

/// The flows of a configuration may hold so much.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Memory {
    /// All of them together; None where this network namespace does not say.
    limit_bytes: Option<u64>,
    /// That is the host's default, and not of the file.
    is_default: bool,
    /// One of them at most; None where no buffer is set.
    most: Option<FlowMemory>,
    /// No bound on memory reaches this; None where no buffer is of a given size.
    fixed: Option<Fixed>,
}

/// A flow of a path may hold so much.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FlowMemory {
    path: String,
    bytes: u64,
}

/// Buffers of a given size hold this.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Fixed {
    /// All of them: each path divides them, or has its `max_flows`.
    TogetherBytes(u64),
    /// As many flows as come, of this path: so much each.
    Each(FlowMemory),
}

impl Fixed {
    fn of<'a>(paths: impl Iterator<Item = &'a PathPolicy> + Clone) -> Option<Self> {
        let paths = paths.filter(|path| fixed_bytes(path) > 0);
        let unbounded = paths.clone().filter(|path| all_fixed_bytes(path).is_none());
        if let Some((path, bytes)) =
            unbounded.map(|path| (path, fixed_bytes(path))).max_by_key(|(_, bytes)| *bytes)
        {
            let path = path.name.clone();
            return Some(Self::Each(FlowMemory { path, bytes }));
        }
        let together_bytes = paths.filter_map(all_fixed_bytes).fold(0, u64::saturating_add);
        (together_bytes > 0).then_some(Self::TogetherBytes(together_bytes))
    }
}

/// Reads what is the default on this host.
pub fn default_bytes() -> Option<u64> {
    let pages: u64 = fs::read_to_string(TCP_MEM).ok()?.split_whitespace().next()?.parse().ok()?;
    Some(pages * sockstat::page_bytes())
}

impl Memory {
    pub fn of(config: &Config, default_bytes: Option<u64>) -> Self {
        let tuned = config.paths.iter().filter(|path| !path.observe);
        let fixed = Fixed::of(tuned.clone());
        let most = tuned.max_by_key(|path| flow_bytes(path)).map(|path| (path, flow_bytes(path)));
        let configured = config.limits.max_memory_bytes;
        Self {
            limit_bytes: configured.or(default_bytes),
            is_default: configured.is_none(),
            most: most
                .filter(|(_, bytes)| *bytes > 0)
                .map(|(path, bytes)| FlowMemory { path: path.name.clone(), bytes }),
            fixed,
        }
    }
}

/// Returns what both buffers of a flow come to at most.
fn flow_bytes(path: &PathPolicy) -> u64 {
    doubled(path.sndbuf_bytes) + doubled(path.rcvbuf_bytes) + 2 * doubled(path.autotune_bytes)
}

/// Returns what those of its buffers come to that are of a given size.
fn fixed_bytes(path: &PathPolicy) -> u64 {
    let AutoBuffers { sndbuf, rcvbuf, .. } = path.origin.buffers;
    let of_given_size = |is_auto: bool, bytes: Option<u32>| doubled(bytes.filter(|_| !is_auto));
    of_given_size(sndbuf, path.sndbuf_bytes) + of_given_size(rcvbuf, path.rcvbuf_bytes)
}

/// Returns what those of all flows of a path come to; None where any number may come.
fn all_fixed_bytes(path: &PathPolicy) -> Option<u64> {
    let flows = if path.divide { 1 } else { path.max_flows? };
    Some(fixed_bytes(path) * u64::from(flows))
}

/// Returns a size as the kernel keeps it.
fn doubled(bytes: Option<u32>) -> u64 {
    2 * u64::from(bytes.unwrap_or(0))
}

impl Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(FlowMemory { path, bytes: most_bytes }) = &self.most else { return Ok(()) };
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
        writeln!(
            f,
            "near it buffers grow no more, beyond it the largest shrink, none goes untuned"
        )?;
        let stay = "but buffers of a given size stay:";
        match &self.fixed {
            None => Ok(()),
            Some(Fixed::TogetherBytes(bytes)) => {
                writeln!(f, "{stay} {} at most, all together", Bytes(*bytes))
            }
            Some(Fixed::Each(FlowMemory { path, bytes })) => {
                writeln!(f, "{stay} {} a flow, and path {path} has no max_flows", Bytes(*bytes))
            }
        }
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
                        untuned\n\
                        but buffers of a given size stay: 16.0 MiB a flow, and \
                        path large has no max_flows\n";
        assert_eq!(text, expected);
        let configured = told(&format!("[limits]\nmax_memory = '1GiB'\n{PATHS}"), None);
        assert!(
            configured.contains("is 1.0 GiB (as configured), in which 64 such"),
            "{configured}"
        );
    }

    #[test]
    fn buffers_of_a_given_size_are_told_together_where_flows_are_bounded() {
        let fixed = |paths: &[&str]| {
            let text = told(&paths.concat(), Some(1 << 30));
            let mut lines = text.lines();
            lines.find_map(|line| {
                line.strip_prefix("but buffers of a given size stay: ").map(str::to_owned)
            })
        };
        let grows = "[[path]]\nname = 'grows'\nremote = '10.0.0.3'\n\
                     bandwidth = '1Gbit'\nrtt = '100ms'\nsndbuf = 'auto'\n";
        let three = "[[path]]\nname = 'three'\nremote = '10.0.0.4'\nsndbuf = '4MiB'\n\
                     max_flows = 3\n";
        let divided = "[[path]]\nname = 'divided'\nremote = '10.0.0.5'\nsndbuf = '50MiB'\n\
                       divide = true\n";
        assert_eq!(fixed(&[grows]), None);
        // Three times 8 MiB, and 100 MiB once.
        let together = fixed(&[grows, three, divided]);
        assert_eq!(together.as_deref(), Some("124.0 MiB at most, all together"));
        // One without a bound is told alone.
        let each = fixed(&[three, divided, PATHS]);
        assert_eq!(each.as_deref(), Some("16.0 MiB a flow, and path large has no max_flows"));
    }

    #[test]
    fn without_buffers_there_is_nothing_to_tell() {
        assert_eq!(told("[[path]]\nname = 'p'\nremote = '10.0.0.1'\ndscp = 8\n", Some(1)), "");
        assert!(told(PATHS, None).contains("tcp_mem can't be read here"));
    }
}
