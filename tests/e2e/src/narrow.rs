//! A long path that the kernel's own buffers leave idle for most of the time.

use anyhow::Result;
use wad_testbed::{emulated::wan::Wan, settings, sysctl};

/// Its bandwidth-delay product is 2.5 MB.
const PATH: &str = "rtt = '100ms'\nforward = { rate = '200Mbit', queue.bdp = 1.0 }\n";

/// Starts it, with the most bytes that the kernel's autotuning gives to buffers at both ends.
pub fn wan(most_sndbuf_bytes: u64, most_rcvbuf_bytes: u64) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let sizes = [
        ("net.ipv4.tcp_wmem", format!("4096 16384 {most_sndbuf_bytes}")),
        ("net.ipv4.tcp_rmem", format!("4096 131072 {most_rcvbuf_bytes}")),
    ];
    for netns in [wan.a(), wan.b()] {
        for (name, value) in &sizes {
            netns.run(|| sysctl::set(name, value))??;
        }
    }
    Ok(wan)
}
