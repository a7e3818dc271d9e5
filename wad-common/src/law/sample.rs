//! A law with `cong_control` learns this from one ACK.

/// One ACK, and the flow after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// It came then, on a clock that does not go back.
    pub now_us: u64,
    /// RTT of the newest segment that it acknowledges; None where it tells none.
    pub rtt_us: Option<u32>,
    /// Segments that it newly acknowledges, in order or not.
    pub acked_segments: u32,
    /// Segments delivered so far, these included; wraps around.
    pub delivered_segments: u32,
    /// Segments still on their way.
    pub in_flight_segments: u32,
    /// The window that the flow's use of it entitles it to: see `Tcp` of the BPF
    /// side.
    pub entitled_segments: u32,
    /// The kernel has reduced the threshold after a loss or a mark, and the
    /// window is to follow (`TCP_CA_CWR`, `TCP_CA_Recovery`).
    pub is_reducing: bool,
}
