//! Socket buffers of a path: given as sizes, or "auto"; or left to the kernel's
//! autotuning, with room for what the path carries.

use toml::de::DeValue;

use super::{
    AutoBuffers,
    aimd::Streams,
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

pub fn read(
    table: &Table<'_>,
    line: &Line,
    streams: Option<Streams>,
    problems: &mut Problems,
) -> Buffers {
    let times = streams.map_or(1, |Streams(k)| u64::from(k));
    // Each of the flows that it stands for would have its own.
    let auto_bytes = line.bdp_bytes().map(|bdp_bytes| times * auto_bytes(bdp_bytes));
    let mut use_line = false;
    let mut read = |key, is_auto: &mut bool| {
        let size = table.read(key, problems, |value| match value.as_str() {
            _ if key == AUTOTUNE => parse_autotune(value),
            Some("auto") => Ok(Size::Auto),
            _ => quantity::size(value, MIN_BYTES..=MAX_BYTES).map(Size::Bytes),
        });
        match size {
            Some(Located { value: Size::Bytes(bytes), .. }) => u32::try_from(bytes).ok(),
            Some(Located { value: Size::Auto, at }) => {
                (use_line, *is_auto) = (true, true);
                line.check_auto(table, key, at, problems);
                if let Some(bytes) = auto_bytes.filter(|&bytes| bytes > MAX_BYTES) {
                    problems.push(too_large(key, bytes, streams).at(at));
                    return None;
                }
                u32::try_from(auto_bytes?).ok()
            }
            None => {
                // Wrong, and may have been meant so.
                use_line |= table.has(key);
                None
            }
        }
    };
    let mut buffers = Buffers::default();
    buffers.sndbuf_bytes = read("sndbuf", &mut buffers.auto.sndbuf);
    buffers.rcvbuf_bytes = read("rcvbuf", &mut buffers.auto.rcvbuf);
    buffers.autotune_bytes = read(AUTOTUNE, &mut buffers.auto.autotune);
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
/// long, fast one more than [`MAX_BYTES`], which is then an error.
pub fn auto_bytes(bdp_bytes: f64) -> u64 {
    ((bdp_bytes * AUTO_HEADROOM).round() as u64).max(MIN_BYTES)
}

fn too_large(key: &str, bytes: u64, streams: Option<Streams>) -> Fault {
    let times = streams
        .map_or_else(String::new, |Streams(k)| format!(", {k} times with `equivalent_streams`"));
    let title = format!("`{key}`: \"auto\" comes to {bytes} bytes{times}");
    Fault::new(title, format!("the kernel takes at most {MAX_BYTES}"))
        .help("check `bandwidth` and `rtt`, or give a size")
}
