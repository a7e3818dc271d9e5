//! The congestion controls of ours, by name.

/// A law, as it is registered with the kernel and shows in `ss -i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// AIMD(b, a), RFC 5681 with other numbers.
    Aimd,
    /// HighSpeed TCP, RFC 3649.
    HighSpeed,
    /// Scalable TCP.
    Scalable,
    /// For paths that lose packets without congestion.
    Leaky,
    /// By delay, with a small standing queue.
    Delay,
    /// A path of one's own, filled at its rate.
    Dedicated,
}

impl Law {
    pub const ALL: [Self; 6] =
        [Self::Aimd, Self::HighSpeed, Self::Scalable, Self::Leaky, Self::Delay, Self::Dedicated];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Aimd => "wad_aimd",
            Self::HighSpeed => "wad_highspeed",
            Self::Scalable => "wad_scalable",
            Self::Leaky => "wad_leaky",
            Self::Delay => "wad_delay",
            Self::Dedicated => "wad_dedicated",
        }
    }
}
