//! The table of our laws: a row says all that the agent knows of one.
//!
//! The configuration, the shares that `wad check` tells of, the plan and the
//! registration with the kernel read the table. A further law is a row here, with the
//! parameters that it has in `wad_common::control`.

use wad_common::{
    control::{Control, IIAD},
    law::{Binomial, cubic, highspeed, scalable},
};

use crate::response::{Response, is_more_than_fair};

/// A member of `tcp_congestion_ops`, and the BPF program for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    pub member: &'static str,
    pub program: &'static str,
}

/// A row of the table.
pub struct Entry {
    /// The name in the kernel, which `ss -i` shows.
    pub name: &'static str,
    /// A sentence for the documentation.
    pub doc: &'static str,
    /// The programs that it consists of.
    pub callbacks: &'static [Callback],
    /// The keys of a path that mean anything to it, of those that only our laws have.
    pub keys: &'static [&'static str],
    /// The words that a path has in place of `congestion`, where the law has a key of its
    /// own.
    pub instead: Option<&'static str>,
    /// The kernel's own algorithm that answers to losses as this law does, by its name.
    pub in_kernel: Option<&'static str>,
    /// It cannot do without pacing.
    pub needs_pacing: bool,
    pub answer: Answer,
    pub consent: Consent,
    /// The parameters with which `wad plan` compares it on a path of so many segments;
    /// None where the plan leaves it out.
    pub plan: Option<fn(u32) -> Control>,
}

/// How a law answers to losses.
pub enum Answer {
    /// Its mean window follows from their rate.
    Follows {
        /// Increase and decrease at a window.
        pair: fn(&Control, u32) -> wad_common::law::Aimd,
        /// Its mean windows at the path's round trip time in seconds; None where that is not
        /// known.
        response: fn(&Control, Option<f64>) -> Response,
    },
    /// It fills the path, at any rate of losses.
    Fills,
    /// It yields before there are losses: they are no measure for it.
    Yields,
}

/// When those who share a path have to agree to a law.
#[derive(Clone, Copy)]
pub enum Consent {
    /// Never: it takes no more than a CUBIC flow.
    Never,
    /// Where its increase and decrease take more than a CUBIC flow: the more losses, the more.
    ByPair,
    /// Where the path is large: the fewer losses, the more it takes.
    ByPath,
    /// Where it is to keep a queue that is long for the path.
    ByQueue,
    /// Always, for a reason that may depend on the share that it takes at most.
    Always(fn(f64) -> Reason),
}

/// Why a law needs consent.
pub struct Reason {
    pub title: String,
    pub label: &'static str,
}

/// Makes [`Law`] from rows.
macro_rules! laws {
    ($($(#[doc = $doc:literal])* $law:ident: { $($row:tt)* })*) => {
        /// A law of ours, by its row in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Law {
            $($(#[doc = $doc])* $law,)*
        }

        impl Law {
            /// All of them, in the order in which they are listed.
            pub const ALL: &[Self] = &[$(Self::$law,)*];

            pub const fn entry(self) -> &'static Entry {
                match self {
                    $(Self::$law => &const { Entry { doc: concat!($($doc),*), $($row)* } },)*
                }
            }
        }
    };
}

/// The callbacks of a law that answers to losses; the kernel does the recovery.
macro_rules! loss_based {
    ($law:literal) => {
        &[
            Callback { member: "init", program: "wad_init" },
            Callback { member: "ssthresh", program: concat!($law, "_ssthresh") },
            Callback { member: "cong_avoid", program: concat!($law, "_cong_avoid") },
            Callback { member: "set_state", program: concat!($law, "_set_state") },
            Callback { member: "undo_cwnd", program: "wad_undo_cwnd" },
            Callback { member: "min_tso_segs", program: "loss_based_min_tso_segs" },
        ]
    };
}

/// The callbacks of a law that has window and pacing rate to itself.
macro_rules! in_control {
    ($law:literal $(and $more:literal)?) => {
        &[
            Callback { member: "init", program: concat!($law, "_init") },
            Callback { member: "ssthresh", program: concat!($law, "_ssthresh") },
            Callback { member: "cong_control", program: concat!($law, "_cong_control") },
            Callback { member: "undo_cwnd", program: "wad_undo_cwnd" },
            Callback { member: "min_tso_segs", program: "wad_min_tso_segs" },
            $(Callback { member: $more, program: concat!($law, "_", $more) },)?
        ]
    };
}

laws! {
    /// CUBIC, RFC 9438, by which most of the world sends.
    Cubic: {
        name: "wad_cubic",
        callbacks: loss_based!("cubic"),
        keys: &[
            "equivalent_streams", "loss", "max_ssthresh", "initial_ssthresh", "max_cwnd", "idle",
            "resume", "ignore_local_stalls",
        ],
        instead: None,
        in_kernel: None,
        needs_pacing: false,
        answer: Answer::Follows {
            pair: |control, _| cubic::reno_friendly(cubic::flows(control.aimd)),
            response: |control, rtt_seconds| {
                Response::cubic_flows(cubic::flows(control.aimd), rtt_seconds)
            },
        },
        consent: Consent::ByPair,
        // The kernel's own is there, which recovers as it does.
        plan: None,
    }

    /// AIMD(b, a): RFC 5681 with other numbers.
    Aimd: {
        name: "wad_aimd",
        callbacks: loss_based!("aimd"),
        keys: &[
            "additive_increase", "decrease", "equivalent_streams", "loss", "max_ssthresh",
            "initial_ssthresh", "max_cwnd", "idle", "resume",
            "ignore_local_stalls",
        ],
        instead: None,
        in_kernel: None,
        needs_pacing: false,
        answer: Answer::Follows {
            pair: |control, _| control.aimd,
            response: |control, _| Response::aimd(control.aimd),
        },
        consent: Consent::ByPair,
        // RFC 3649's pair for the path's window.
        plan: Some(|segments| Control { aimd: highspeed::response(segments), ..Control::STANDARD }),
    }

    /// HighSpeed TCP, RFC 3649: faster the larger the window.
    HighSpeed: {
        name: "wad_highspeed",
        callbacks: loss_based!("highspeed"),
        keys: &[
            "loss", "max_ssthresh", "initial_ssthresh", "max_cwnd", "idle", "resume",
            "ignore_local_stalls",
        ],
        instead: None,
        in_kernel: Some("highspeed"),
        needs_pacing: false,
        answer: Answer::Follows {
            pair: |_, cwnd_segments| highspeed::response(cwnd_segments),
            response: |_, _| Response::highspeed(),
        },
        consent: Consent::ByPath,
        plan: Some(|_| Control::STANDARD),
    }

    /// Scalable TCP: it recovers from a loss in the same number of round trips at any window.
    Scalable: {
        name: "wad_scalable",
        callbacks: loss_based!("scalable"),
        keys: &[
            "loss", "max_ssthresh", "initial_ssthresh", "max_cwnd", "idle", "resume",
            "ignore_local_stalls",
        ],
        instead: None,
        in_kernel: Some("scalable"),
        needs_pacing: false,
        answer: Answer::Follows {
            pair: |_, cwnd_segments| scalable::response(cwnd_segments),
            response: |_, _| Response::scalable(),
        },
        consent: Consent::ByPath,
        plan: Some(|_| Control::STANDARD),
    }

    /// Binomial congestion control, SQRT or IIAD: it gives up less of the window at a time than
    /// a standard flow, takes it back as much slower, and gets no more.
    Binomial: {
        name: "wad_binomial",
        callbacks: loss_based!("binomial"),
        keys: &[
            "binomial", "loss", "max_ssthresh", "initial_ssthresh", "max_cwnd", "idle",
            "resume", "ignore_local_stalls",
        ],
        instead: None,
        in_kernel: None,
        needs_pacing: false,
        answer: Answer::Follows {
            pair: |control, cwnd_segments| {
                Binomial::of(control.flags & IIAD != 0).response(cwnd_segments)
            },
            response: |_, _| Response::standard(),
        },
        consent: Consent::Never,
        plan: Some(|_| Control::STANDARD),
    }

    /// For paths that lose packets without congestion: only losses with a queue are an answer's
    /// reason.
    Leaky: {
        name: "wad_leaky",
        callbacks: in_control!("leaky" and "set_state"),
        keys: &["loss", "max_ssthresh", "initial_ssthresh", "max_cwnd"],
        instead: Some("write loss = \"leaky\" instead"),
        in_kernel: None,
        needs_pacing: true,
        answer: Answer::Fills,
        consent: Consent::Always(|most| Reason {
            title: if most.is_finite() && is_more_than_fair(most) {
                format!(
                    "this takes up to {most:.1} times a CUBIC flow's share, at a loss rate of 0.1%"
                )
            } else {
                "this takes more than a CUBIC flow's share of a path with losses".to_owned()
            },
            label: "losses that no queue explains leave the window as it is",
        }),
        plan: None,
    }

    /// By delay, with a small standing queue: it yields before packets are lost.
    Delay: {
        name: "wad_delay",
        callbacks: in_control!("delay"),
        keys: &["max_ssthresh", "initial_ssthresh", "max_cwnd", "standing_queue"],
        instead: None,
        in_kernel: None,
        needs_pacing: true,
        answer: Answer::Yields,
        consent: Consent::ByQueue,
        plan: None,
    }

    /// A path of one's own, filled at its rate whatever is lost.
    Dedicated: {
        name: "wad_dedicated",
        callbacks: in_control!("dedicated"),
        keys: &[],
        instead: Some("write dedicated = \"622Mbit\", or the path's rate, instead"),
        in_kernel: None,
        // `pacing` is refused beside `dedicated`, whatever it says.
        needs_pacing: false,
        answer: Answer::Fills,
        consent: Consent::Always(|_| Reason {
            title: "this window never yields to other flows".to_owned(),
            label: "whatever is lost",
        }),
        plan: None,
    }
}

impl Law {
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The law that an algorithm of the kernel's is, of whichever instance: another one's
    /// has two characters more.
    pub fn of_algorithm(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|law| name.starts_with(law.name()))
    }

    /// The law that an algorithm of the kernel's answers to losses as, if there is one.
    pub fn as_kernels(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|law| law.entry().in_kernel == Some(name))
    }

    /// Returns the laws that `congestion` takes.
    pub fn named() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|law| law.entry().instead.is_none())
    }

    /// Returns the laws to which a key means anything.
    pub fn with_key(key: &str) -> Vec<Self> {
        Self::ALL.iter().copied().filter(|law| law.takes(key)).collect()
    }

    /// Whether a path's key means anything to it.
    pub fn takes(self, key: &str) -> bool {
        self.entry().keys.contains(&key)
    }

    /// Whether what it takes beside CUBIC depends on what the path carries, or on its round
    /// trip time.
    pub const fn share_depends_on_path(self) -> bool {
        matches!(self.entry().consent, Consent::ByPair | Consent::ByPath | Consent::Always(_))
    }

    /// Whether what it takes beside CUBIC depends on the path's round trip time by itself.
    pub const fn share_depends_on_rtt(self) -> bool {
        matches!(self.entry().answer, Answer::Follows { .. }) && self.share_depends_on_path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_laws_are_taken_for_each_other() {
        for law in Law::ALL {
            assert_eq!(Law::of_algorithm(law.name()), Some(*law));
            assert_eq!(Law::of_algorithm(&format!("{}7k", law.name())), Some(*law));
            assert!(law.entry().doc.ends_with('.'), "{law:?}");
        }
        assert_eq!(Law::of_algorithm("cubic"), None);
    }

    #[test]
    fn the_kernels_laws_are_those_of_the_same_rfc_and_paper() {
        assert_eq!(Law::as_kernels("highspeed"), Some(Law::HighSpeed));
        assert_eq!(Law::as_kernels("scalable"), Some(Law::Scalable));
        assert_eq!(Law::as_kernels("cubic"), None);
    }

    /// The kernel's own member decides which of the two kinds a law is.
    #[test]
    fn each_law_has_what_the_kernel_requires() {
        for law in Law::ALL {
            let members: Vec<_> =
                law.entry().callbacks.iter().map(|callback| callback.member).collect();
            for needed in ["ssthresh", "undo_cwnd"] {
                assert!(members.contains(&needed), "{law:?} has no {needed}");
            }
            let grows = |member: &&str| ["cong_avoid", "cong_control"].contains(member);
            assert_eq!(members.iter().filter(|member| grows(member)).count(), 1, "{law:?}");
        }
    }
}
