//! Socket buffers of a path: given as sizes, or "auto"; or left to the kernel's
//! autotuning, with room for what the path carries.

use toml::de::DeValue;

use super::{
    AutoBuffers,
    aimd::Streams,
    cut::{Cut, CutBuffers, Limit, Most},
    fault::{Fault, Problems, quoted},
    line::Line,
    quantity,
    table::{self, Located, Table},
};

/// Least argument of SO_SNDBUF and SO_RCVBUF: a page.
pub const MIN_BYTES: u64 = 4_096;
/// Greatest: the kernel doubles it into an `int`.
pub const MAX_BYTES: u64 = (1 << 30) - 1;

/// "auto" asks for so much of the bandwidth-delay product (BDP). The papers size
/// buffers at twice the BDP; the kernel doubles what it is asked for, and spends
/// part of it on structures of its own: 1.25 makes 2.5, of which two are left.
pub const AUTO_HEADROOM: f64 = 1.25;

/// Arguments of SO_SNDBUF and SO_RCVBUF.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffers {
    pub sndbuf_bytes: Option<u32>,
    pub rcvbuf_bytes: Option<u32>,
    /// Bytes that the kernel's autotuning is to have room for.
    pub autotune_bytes: Option<u32>,
    pub auto: AutoBuffers,
    pub cut: CutBuffers,
    /// The line is used: what the path carries is needed for them.
    pub use_line: bool,
}

/// The key of those that the kernel sizes.
const AUTOTUNE: &str = "buffers";

#[derive(Clone, Copy)]
enum Size {
    Bytes(u64),
    Auto,
}

/// Reads them; none is larger than `most`.
pub fn read(
    table: &Table<'_>,
    line: &Line,
    streams: Option<Streams>,
    most: Most,
    problems: &mut Problems,
) -> Buffers {
    let times = streams.map_or(1, |Streams(k)| u64::from(k));
    // Each of the flows that it stands for would have its own.
    let auto_bytes = line.bdp_bytes().map(|bdp_bytes| times * auto_bytes(bdp_bytes));
    let mut use_line = false;
    let mut read = |key, is_auto: &mut bool, cut: &mut Option<Cut>| {
        let size = table.read(key, problems, |value| match value.as_str() {
            _ if key == AUTOTUNE => parse_autotune(value),
            Some("auto") => Ok(Size::Auto),
            _ => quantity::size(value, MIN_BYTES..=MAX_BYTES).map(Size::Bytes),
        });
        let asked_bytes = match size {
            Some(Located { value: Size::Bytes(bytes), .. }) => bytes,
            Some(Located { value: Size::Auto, at }) => {
                (use_line, *is_auto) = (true, true);
                line.check_auto(table, key, at, problems);
                auto_bytes?
            }
            None => {
                // Wrong, and may have been meant so.
                use_line |= table.has(key);
                return None;
            }
        };
        let (bytes, what_is_cut) = most.cut(asked_bytes);
        *cut = what_is_cut;
        Some(bytes)
    };
    let mut buffers = Buffers::default();
    buffers.sndbuf_bytes = read("sndbuf", &mut buffers.auto.sndbuf, &mut buffers.cut.sndbuf);
    buffers.rcvbuf_bytes = read("rcvbuf", &mut buffers.auto.rcvbuf, &mut buffers.cut.rcvbuf);
    buffers.autotune_bytes = read(AUTOTUNE, &mut buffers.auto.autotune, &mut buffers.cut.autotune);
    check_alone(table, problems);
    Buffers { use_line, ..buffers }
}

fn parse_autotune(value: &DeValue<'_>) -> Result<Size, Fault> {
    match table::text(value)? {
        "autotune" => Ok(Size::Auto),
        other => Err(Fault::new(
            format!("{} is no way to size buffers", quoted(other)),
            "it takes \"autotune\"",
        )
        .help("for buffers of a fixed size give `sndbuf` and `rcvbuf`")),
    }
}

/// A buffer that is set is one that the kernel does not tune any more.
fn check_alone(table: &Table<'_>, problems: &mut Problems) {
    let Some(at) = table.place(AUTOTUNE) else { return };
    for fixed in ["sndbuf", "rcvbuf"].into_iter().filter_map(|key| table.place(key)) {
        let title = "buffers = \"autotune\" leaves both buffers to the kernel";
        let fault = Fault::new(title, "for the kernel").help("leave one of the two out");
        problems.push(fault.at(at).also(fixed, "of a fixed size"));
    }
}

/// Returns what "auto" asks for. For a short, slow path, the least there is; for a
/// long, fast one more than [`MAX_BYTES`], to which it is cut.
pub fn auto_bytes(bdp_bytes: f64) -> u64 {
    ((bdp_bytes * AUTO_HEADROOM).round() as u64).max(MIN_BYTES)
}

/// Returns the bound of a file's buffers: its `[limits] max_buffer`, or else the kernel's.
pub fn most(max_buffer_bytes: Option<u32>) -> Most {
    match max_buffer_bytes {
        Some(bytes) => Most { bytes, by: Limit::MaxBuffer },
        // It is half of what 32 bits hold.
        None => Most { bytes: MAX_BYTES as u32, by: Limit::Kernel },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PathPolicy, testing};

    const MIB: u32 = 1 << 20;

    fn path(keys: &str) -> PathPolicy {
        // The bound stands behind the path.
        let text = format!(
            "[[path]]\nname = 'p'\nremote = '10.0.0.1'\n{keys}\n[limits]\nmax_buffer = '4MiB'\n"
        );
        Config::parse("wad.toml", &text, &testing::host()).expect("valid").paths.remove(0)
    }

    #[test]
    fn max_buffer_cuts_what_a_path_asks_for() {
        let path = path("sndbuf = '64MiB'\nrcvbuf = '4MiB'");
        assert_eq!((path.sndbuf_bytes, path.rcvbuf_bytes), (Some(4 * MIB), Some(4 * MIB)));
        let to = Most { bytes: 4 * MIB, by: Limit::MaxBuffer };
        let sndbuf = Some(Cut { from_bytes: 64 << 20, to });
        assert_eq!(path.origin.cut, CutBuffers { sndbuf, ..CutBuffers::default() });
    }

    #[test]
    fn max_buffer_may_be_written_with_escapes() {
        let text = "[limits]\n\"max_buff\\u0065r\" = '4MiB'\n\
                    [[path]]\nname = 'p'\nremote = '10.0.0.1'\nsndbuf = '64MiB'\n";
        let config = Config::parse("wad.toml", text, &testing::host()).expect("valid");
        assert_eq!(config.limits.max_buffer_bytes, Some(4 * MIB));
        assert_eq!(config.paths[0].sndbuf_bytes, Some(4 * MIB));
    }

    #[test]
    fn an_auto_that_the_kernel_would_not_take_is_cut() {
        let text = "[[path]]\nname = 'p'\nremote = '10.0.0.1'\nbandwidth = '100Gbit'\n\
                    rtt = '100ms'\nrcvbuf = 'auto'\n";
        let path =
            Config::parse("wad.toml", text, &testing::host()).expect("valid").paths.remove(0);
        assert_eq!(path.rcvbuf_bytes, Some(MAX_BYTES as u32));
        let to = Most { bytes: MAX_BYTES as u32, by: Limit::Kernel };
        assert_eq!(path.origin.cut.rcvbuf, Some(Cut { from_bytes: 1_562_500_000, to }));
    }

    #[test]
    fn max_buffer_cuts_an_auto_that_the_kernel_would_not_take() {
        let line = "bandwidth = '400Gbit'\nrtt = '100ms'\n";
        let path = |keys| path(&format!("{line}{keys}"));
        let fixed = path("sndbuf = 'auto'");
        assert_eq!(fixed.sndbuf_bytes, Some(4 * MIB));
        assert_eq!(fixed.origin.cut.sndbuf.map(|cut| cut.from_bytes), Some(6_250_000_000));
        let tuned = path("buffers = 'autotune'");
        assert_eq!(tuned.autotune_bytes, Some(4 * MIB));
        assert_eq!(tuned.origin.cut.autotune.map(|cut| cut.from_bytes), Some(6_250_000_000));
    }
}
