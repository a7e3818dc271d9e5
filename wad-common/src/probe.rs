//! The sign by which flows of probes are known on a host.

/// A connection with this `TCP_USER_TIMEOUT`, in milliseconds, is one of a probe: no path
/// tunes it, and it is none of its users' flows. (More than 16 minutes, so that it ends
/// none before the kernel's own `tcp_retries2` would.)
///
/// Of all that a socket can carry, this asks for no privilege, changes no packet and no
/// route, as a mark would, goes over to the connections that a listener accepts, and can
/// be set by real tools, too: it is iperf3's `--snd-timeout`.
pub const USER_TIMEOUT_MS: u32 = 1_004_823;
