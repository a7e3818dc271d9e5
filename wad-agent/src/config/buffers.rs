//! Socket buffers of a path: given as sizes, or "auto".

use super::{
    fault::{Fault, Problems},
    quantity,
    table::{self, Field, Table},
};

/// Least argument of SO_SNDBUF and SO_RCVBUF: a page.
const MIN_BYTES: u64 = 4_096;
/// Greatest: the kernel doubles it into an `int`.
const MAX_BYTES: u64 = (1 << 30) - 1;

/// "auto" asks for so much of the bandwidth-delay product (BDP). The papers size
/// buffers at twice the BDP; the kernel doubles what it is asked for, and spends
/// part of it on structures of its own: 1.25 makes 2.5, of which two are left.
const AUTO_HEADROOM: f64 = 1.25;

const MAX_BITS_PER_SECOND: f64 = 10e12;
const MAX_RTT_SECONDS: f64 = 60.0;

/// Arguments of SO_SNDBUF and SO_RCVBUF.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffers {
    pub sndbuf_bytes: Option<u32>,
    pub rcvbuf_bytes: Option<u32>,
}

#[derive(Clone, Copy)]
enum Size {
    Bytes(u64),
    Auto,
}

pub fn read(table: &Table<'_>, problems: &mut Problems) -> Buffers {
    let bandwidth = table.read("bandwidth", problems, |value| {
        let rate = quantity::bits_per_second(table::text(value)?)?;
        positive(rate, MAX_BITS_PER_SECOND, "above 0, up to 10Tbit")
    });
    let rtt = table.read("rtt", problems, |value| {
        let time = quantity::seconds(table::text(value)?)?;
        positive(time, MAX_RTT_SECONDS, "above 0, up to 60s")
    });
    let auto_bytes =
        bandwidth.zip(rtt).map(|(bandwidth, rtt)| auto_bytes(bandwidth.value, rtt.value));
    let [sndbuf, rcvbuf] = ["sndbuf", "rcvbuf"].map(|key| {
        table.read(key, problems, |value| match value.as_str() {
            Some("auto") => Ok(Size::Auto),
            _ => quantity::size(value, MIN_BYTES..=MAX_BYTES).map(Size::Bytes),
        })
    });
    let autos = [("sndbuf", sndbuf), ("rcvbuf", rcvbuf)];
    check_auto(table, &autos, auto_bytes, problems);
    // Out of range only where that is an error.
    let argument = |size: Field<Size>| match size.value {
        Size::Bytes(bytes) => u32::try_from(bytes).ok(),
        Size::Auto => u32::try_from(auto_bytes?).ok(),
    };
    Buffers { sndbuf_bytes: sndbuf.and_then(argument), rcvbuf_bytes: rcvbuf.and_then(argument) }
}

fn positive(number: f64, most: f64, range: &str) -> Result<f64, Fault> {
    if number > 0.0 && number <= most {
        return Ok(number);
    }
    Err(Fault::new("out of range", format!("must be {range}")))
}

/// For a short, slow path, the least there is.
fn auto_bytes(bits_per_second: f64, rtt_seconds: f64) -> u64 {
    let bdp_bytes = bits_per_second / 8.0 * rtt_seconds;
    ((bdp_bytes * AUTO_HEADROOM).ceil() as u64).max(MIN_BYTES)
}

fn check_auto(
    table: &Table<'_>,
    buffers: &[(&str, Option<Field<Size>>)],
    auto_bytes: Option<u64>,
    problems: &mut Problems,
) {
    let is_auto = |size: &Field<Size>| matches!(size.value, Size::Auto);
    for (key, size) in buffers {
        let Some(size) = size.as_ref().filter(|size| is_auto(size)) else { continue };
        for needed in ["bandwidth", "rtt"].into_iter().filter(|needed| !table.has(needed)) {
            let fault = Fault::new(
                format!("`{key}`: \"auto\" needs `{needed}`"),
                "the product of bandwidth and rtt gives the size",
            );
            let fault = fault.help("add `bandwidth` and `rtt` of the path, or give a size");
            problems.push(fault.at(size.at));
        }
        if let Some(bytes) = auto_bytes.filter(|&bytes| bytes > MAX_BYTES) {
            let fault = Fault::new(
                format!("`{key}`: \"auto\" comes to {bytes} bytes"),
                format!("the kernel takes at most {MAX_BYTES}"),
            );
            problems.push(fault.help("check `bandwidth` and `rtt`, or give a size").at(size.at));
        }
    }
    let any_auto = buffers.iter().any(|(key, size)| match size {
        Some(size) => is_auto(size),
        // Wrong, and may have been meant so.
        None => table.has(key),
    });
    for key in ["bandwidth", "rtt"] {
        if let Some(at) = table.place(key).filter(|_| !any_auto) {
            let fault = Fault::new(format!("`{key}` has no effect"), "only \"auto\" uses it");
            let help = "add sndbuf = \"auto\" and rcvbuf = \"auto\", or leave it out";
            problems.push(fault.help(help).at(at));
        }
    }
}
