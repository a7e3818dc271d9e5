//! An attachment says whether what `wad` has in the kernel is where it belongs, part by
//! part.

/// A part of what is in the kernel, which others can take away by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The tuner, on its cgroup: without it new flows are not tuned.
    Tuner,
    /// The program for `override_setsockopt`, on the same cgroup.
    Options,
    /// The congestion controls, registered.
    Laws,
    /// The pins: without them all the others end with the agent.
    Pins,
}

impl Part {
    pub const ALL: [Self; 4] = [Self::Tuner, Self::Options, Self::Laws, Self::Pins];

    /// Returns what metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tuner => "tuner",
            Self::Options => "options",
            Self::Laws => "laws",
            Self::Pins => "pins",
        }
    }
}

/// A part that is not where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub part: Part,
    /// The reason says what has become of it.
    pub why: String,
}

/// Holds what was seen of all parts when they were last looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// Why a part is not where it belongs, in the order of [`Part::ALL`].
    lost: [Option<String>; Part::ALL.len()],
    /// How often each was put back.
    put_back: [u64; Part::ALL.len()],
}

impl Attachment {
    /// Notes that these parts, and no others, are not where they belong.
    pub fn set_lost(&mut self, lost: &[Lost]) {
        self.lost = Default::default();
        for Lost { part, why } in lost {
            self.lost[*part as usize] = Some(why.clone());
        }
    }

    /// Counts that a part was put back.
    pub const fn count(&mut self, part: Part) {
        self.put_back[part as usize] += 1;
    }

    /// Whether a part is where it belongs.
    #[must_use]
    pub const fn has(&self, part: Part) -> bool {
        self.lost[part as usize].is_none()
    }

    /// Returns how often a part was put back.
    #[must_use]
    pub const fn put_back(&self, part: Part) -> u64 {
        self.put_back[part as usize]
    }

    /// Returns why parts are not where they belong: nothing where all are.
    pub fn faults(&self) -> impl Iterator<Item = &str> {
        self.lost.iter().flatten().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_back_is_no_fault_any_more() {
        let mut attachment = Attachment::default();
        assert!(Part::ALL.iter().all(|part| attachment.has(*part)));
        let lost = |part| Lost { part, why: format!("no {}", part.name()) };
        attachment.set_lost(&[lost(Part::Laws), lost(Part::Tuner)]);
        assert!(!attachment.has(Part::Tuner) && attachment.has(Part::Pins));
        assert_eq!(attachment.faults().collect::<Vec<_>>(), ["no tuner", "no laws"]);
        attachment.set_lost(&[lost(Part::Laws)]);
        attachment.count(Part::Tuner);
        assert_eq!(attachment.faults().collect::<Vec<_>>(), ["no laws"]);
        assert_eq!((attachment.put_back(Part::Tuner), attachment.put_back(Part::Laws)), (1, 0));
    }
}
