//! Which settings of a flow the kernel has refused, and why.

use crate::record;

/// A policy may set these of a flow's socket. The number is its place among a flow's
/// refusals.
#[repr(u16)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketSetting {
    /// IP_TOS or IPV6_TCLASS.
    Dscp = 0,
    /// SO_SNDBUF.
    Sndbuf = 1,
    /// SO_RCVBUF, and what goes with it while a flow runs.
    Rcvbuf = 2,
    /// TCP_BPF_IW.
    InitialWindow = 3,
    /// SO_MAX_PACING_RATE.
    Pacing = 4,
    /// TCP_BPF_DELACK_MAX.
    DelayedAck = 5,
    /// TCP_CONGESTION.
    Congestion = 6,
    /// TCP_NOTSENT_LOWAT.
    NotsentLowat = 7,
}

impl SocketSetting {
    /// All of them, in the order of their places.
    pub const ALL: [Self; 8] = [
        Self::Dscp,
        Self::Sndbuf,
        Self::Rcvbuf,
        Self::InitialWindow,
        Self::Pacing,
        Self::DelayedAck,
        Self::Congestion,
        Self::NotsentLowat,
    ];

    /// The key that a path of a configuration has for it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Dscp => "dscp",
            Self::Sndbuf => "sndbuf",
            Self::Rcvbuf => "rcvbuf",
            Self::InitialWindow => "initial_window",
            Self::Pacing => "pacing",
            Self::DelayedAck => "delayed_ack",
            Self::Congestion => "congestion",
            Self::NotsentLowat => "notsent_lowat",
        }
    }
}

/// Places for settings.
pub const PLACES: usize = 8;

/// The reason of a buffer that the kernel made smaller than was asked, without an
/// error: it cuts them to net.core.{w,r}mem_max. No errno is as large.
pub const CUT: u16 = u16::MAX;

/// The kernel refused these of one flow, each setting with its reason.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// By [`SocketSetting`]: 0 for one that was not refused, [`CUT`], or an errno.
    pub reasons: [u16; PLACES],
}
record!(Refused, size = 2 * PLACES);

impl Refused {
    /// Notes what came of a setting: `result` is as a BPF helper returns it, a negative
    /// errno where it failed. What came of it before is no matter any more.
    #[inline(always)]
    pub fn note(&mut self, setting: SocketSetting, result: Result<(), i32>) {
        self.reasons[setting as usize] = match result {
            Ok(()) => 0,
            Err(error) => error.unsigned_abs() as u16,
        };
    }

    /// Notes a buffer that is smaller than was asked.
    #[inline(always)]
    pub fn note_cut(&mut self, setting: SocketSetting) {
        self.reasons[setting as usize] = CUT;
    }

    /// Whether any setting was refused.
    #[inline(always)]
    #[must_use]
    pub const fn are_any(&self) -> bool {
        // Whole words, not a loop, in a program that the verifier follows.
        let [a, b, c, d, e, f, g, h] = self.reasons;
        a | b | c | d | e | f | g | h != 0
    }
}

/// A setting that flows of a path were refused for one reason, as a key of a map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Index of the path's policy.
    pub policy: u32,
    /// A [`SocketSetting`].
    pub setting: u16,
    /// [`CUT`] or an errno.
    pub reason: u16,
}
record!(Refusal, size = 8);

/// Most refusals that are counted, of all paths: what comes after them is only in the
/// path's own count, and in what is told of the flow.
pub const MAX_REFUSALS: u32 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_a_place_of_its_own() {
        for (place, setting) in SocketSetting::ALL.into_iter().enumerate() {
            let mut refused = Refused::default();
            assert!(!refused.are_any());
            refused.note(setting, Err(-12));
            assert!(refused.are_any());
            assert_eq!(refused.reasons[place], 12);
            assert_eq!(refused.reasons.iter().filter(|reason| **reason != 0).count(), 1);
        }
    }

    #[test]
    fn what_is_set_later_is_refused_no_more() {
        let mut refused = Refused::default();
        refused.note(SocketSetting::Sndbuf, Ok(()));
        refused.note_cut(SocketSetting::Sndbuf);
        assert_eq!(refused.reasons[SocketSetting::Sndbuf as usize], CUT);
        refused.note(SocketSetting::Sndbuf, Ok(()));
        assert_eq!(refused, Refused::default());
    }

    #[test]
    fn errors_of_the_kernels_own_fit() {
        // ENOTSUPP is 524.
        let mut refused = Refused::default();
        refused.note(SocketSetting::Congestion, Err(-524));
        assert_eq!(refused.reasons[SocketSetting::Congestion as usize], 524);
    }
}
