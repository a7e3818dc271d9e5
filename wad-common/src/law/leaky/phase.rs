//! The phases of the law for leaky paths: what slow start does next, and the answer to
//! a loss of this round.

/// What slow start does next.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It doubles the window until there is a queue.
    Fast = 0,
    /// It adds a quarter for each RTT, until the queue is large.
    Gentle = 1,
    /// The same, after a cut.
    Again = 2,
    /// It takes the window to a threshold that is known.
    Over = 3,
}

/// The answer to a loss of this round. A round begins with it, because the losses
/// of what was out are of the same event.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    None = 0,
    /// By what the queue takes.
    Drain = 1,
    /// To 0.7, from where slow start goes on.
    Others = 2,
    /// To 0.7.
    Congestion = 3,
    /// To 0.7 in the end; the window grows to there from one segment.
    Timeout = 4,
}

/// Both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    pub start: Start,
    pub cut: Cut,
}

impl Phase {
    /// The phase of these numbers.
    pub const fn from_numbers(start: u8, cut: u8) -> Option<Self> {
        let start = match start {
            0 => Start::Fast,
            1 => Start::Gentle,
            2 => Start::Again,
            3 => Start::Over,
            _ => return None,
        };
        let cut = match cut {
            0 => Cut::None,
            1 => Cut::Drain,
            2 => Cut::Others,
            3 => Cut::Congestion,
            4 => Cut::Timeout,
            _ => return None,
        };
        Some(Self { start, cut })
    }

    /// Whether an edge leads to `next`.
    pub const fn leads_to(self, next: Self) -> bool {
        match (self.cut, next.cut) {
            // The window may grow.
            (Cut::None, Cut::None) | (Cut::Timeout, Cut::Timeout) => self.grows_to(next.start),
            // The round ends, and nothing else with it.
            (_, Cut::None) => self.start as u8 == next.start as u8,
            // Where slow start has not ended yet, others' packets may be to blame.
            (Cut::None, Cut::Others) => {
                matches!(self.start, Start::Fast | Start::Gentle)
                    && matches!(next.start, Start::Again)
            }
            // Any other cut ends it, and only what is worse replaces a cut.
            (Cut::None, Cut::Drain)
            | (Cut::None | Cut::Drain | Cut::Others, Cut::Congestion)
            | (_, Cut::Timeout) => matches!(next.start, Start::Over),
            _ => false,
        }
    }

    /// Whether slow start may go on as `next` says.
    const fn grows_to(self, next: Start) -> bool {
        match next {
            Start::Fast => matches!(self.start, Start::Fast),
            Start::Gentle => matches!(self.start, Start::Fast | Start::Gentle),
            Start::Again => matches!(self.start, Start::Again | Start::Over),
            Start::Over => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Cut::{self, Congestion, Drain, None, Others, Timeout},
        Phase,
        Start::{self, Again, Fast, Gentle, Over},
    };

    const STARTS: [Start; 4] = [Fast, Gentle, Again, Over];
    const CUTS: [Cut; 5] = [None, Drain, Others, Congestion, Timeout];

    fn leads(from: (Start, Cut), to: (Start, Cut)) -> bool {
        let phase = |(start, cut)| Phase { start, cut };
        phase(from).leads_to(phase(to))
    }

    #[test]
    fn slow_start_does_not_begin_anew_as_the_first_time() {
        for from in [Gentle, Again, Over] {
            for cut in CUTS {
                assert!(CUTS.into_iter().all(|to| !leads((from, cut), (Fast, to))));
            }
        }
        assert!(leads((Over, None), (Again, None)) && !leads((Over, None), (Gentle, None)));
        assert!(!leads((Again, None), (Gentle, None)));
    }

    #[test]
    fn only_a_worse_cut_replaces_one() {
        for (n, from) in CUTS.into_iter().enumerate() {
            for (m, to) in CUTS.into_iter().enumerate().skip(1) {
                let reached = STARTS.into_iter().any(|start| leads((Over, from), (start, to)));
                // After slow start no queue is taken for one that others filled.
                let expected = (n < m || from == Timeout && to == Timeout) && to != Others;
                assert_eq!(reached, expected, "{from:?} {to:?}");
            }
        }
        assert!(leads((Gentle, None), (Again, Others)) && !leads((Again, None), (Again, Others)));
    }

    #[test]
    fn a_round_ends_without_anything_else() {
        for cut in CUTS {
            for start in STARTS {
                assert!(leads((start, cut), (start, None)));
            }
        }
        assert!(!leads((Over, Drain), (Again, None)));
    }

    #[test]
    fn numbers_are_those_that_are_kept() {
        for start in STARTS {
            for cut in CUTS {
                assert_eq!(Phase::from_numbers(start as u8, cut as u8), Some(Phase { start, cut }));
            }
        }
        assert_eq!(Phase::from_numbers(4, 0), Option::None);
        assert_eq!(Phase::from_numbers(0, 5), Option::None);
    }
}
