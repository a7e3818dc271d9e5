//! Holes are what a receiver lacks of what came behind it: runs of segments, by their place in
//! the data.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Holes(BTreeMap<u64, u32>);

impl Holes {
    /// The first segment that is missing.
    pub fn first(&self) -> Option<u64> {
        self.0.first_key_value().map(|(first, _)| *first)
    }

    /// These are missing.
    pub fn open(&mut self, first: u64, segments: u32) {
        self.0.insert(first, segments);
    }

    /// These have come: a part of one run, or all of it.
    pub fn fill(&mut self, first: u64, segments: u32) {
        let Some((&begin, &length)) = self.0.range(..=first).next_back() else { return };
        let (end, filled_end) = (begin + u64::from(length), first + u64::from(segments));
        if first >= end {
            return;
        }
        self.0.remove(&begin);
        if first > begin {
            self.0.insert(begin, (first - begin) as u32);
        }
        if end > filled_end {
            self.0.insert(filled_end, (end - filled_end) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Holes;

    #[test]
    fn a_hole_is_filled_from_either_end_or_in_the_middle() {
        let mut holes = Holes::default();
        assert_eq!(holes.first(), None);
        holes.open(10, 10);
        holes.open(30, 2);
        holes.fill(14, 2);
        assert_eq!(holes.first(), Some(10));
        holes.fill(10, 4);
        assert_eq!(holes.first(), Some(16));
        holes.fill(16, 4);
        holes.fill(25, 1);
        assert_eq!(holes.first(), Some(30));
        holes.fill(30, 2);
        assert_eq!(holes.first(), None);
    }
}
