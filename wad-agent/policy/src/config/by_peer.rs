//! A path may have this by the word of peers: nothing in the file, and bounded by it.

/// A path has this by the word of peers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByPeer {
    /// The peer that speaks for all of its prefixes; empty where none does.
    pub peer: String,
    /// Its receive buffer is for what the peer's path to this host needs.
    pub rcvbuf: bool,
    pub bound: Bound,
    /// The peer whose consent it waits for.
    pub waits_for: Option<String>,
    pub consented: Consented,
    pub own: Own,
}

/// Bounds on what follows from the file and from measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// The rate of the slower interface of both ends, in bit/s.
    pub nic_bits_per_second: Option<f64>,
    /// The largest SO_RCVBUF that the flows have at the other end.
    pub granted_bytes: Option<u32>,
    /// The most that all flows of the path may take together, in bit/s.
    pub max_bits_per_second: Option<f64>,
}

/// Says whether the consent is there that a path waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Consented {
    /// It waits for none.
    #[default]
    NotAsked,
    /// It is not there: the path is in its fair form.
    No,
    /// It is there, for so much at most, in bit/s.
    Yes { max_bits_per_second: Option<f64> },
}

/// The values of the file or of measurements that are bounded: what this host says itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    pub bits_per_second: Option<f64>,
    pub sndbuf_bytes: Option<u32>,
}
