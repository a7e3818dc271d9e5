//! Evidence of what tuning does on a path.
//!
//! All of it is pure: it is given the time and what flows have shown, and returns what
//! follows. It has no clock, reads and writes nothing, and waits for nobody.
//!
//! The differences of pairs of blocks ([`differences`]), one with tuning and one without, have a
//! verdict ([`verdict`]) that holds at whatever time it is looked at. It rests on bets ([`bets`]): on
//! what a claim denies, one can win a lot by chance only seldom, however long one plays.
#![forbid(unsafe_code)]

pub mod bets;
pub mod differences;
pub mod verdict;
