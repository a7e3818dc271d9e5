//! Tests write policies: a path for each port of the emulated path's far end.

use crate::emulated::wan::ADDRESSES_V4;

/// Returns a `[[path]]` for connections to a port, with these keys, separated by `;`.
/// The buffers hold any window that tests have, unless `sndbuf` is given.
#[must_use]
pub fn path_to(port: u16, keys: &str) -> String {
    path(&format!("to-{port}"), &format!("remote_port = {port}; {keys}"))
}

/// Returns a `[[path]]` for connections that are accepted on a port.
#[must_use]
pub fn path_of(port: u16, keys: &str) -> String {
    path(&format!("of-{port}"), &format!("local_port = {port}; {keys}"))
}

fn path(name: &str, keys: &str) -> String {
    let buffers =
        if keys.contains("sndbuf") { "" } else { "sndbuf = \"8MiB\"\nrcvbuf = \"8MiB\"\n" };
    let keys = keys.replace(';', "\n");
    format!(
        "[[path]]\nname = \"{name}\"\nremote = {ADDRESSES_V4:?}\nallow = \"aggressive\"\n\
         {buffers}{keys}\n\n"
    )
}
