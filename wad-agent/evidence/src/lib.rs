//! Evidence of what tuning does on a path: experiments that turn it on and off in turn and
//! say whether it helps, and guards that say when it hurts.
//!
//! All of it is pure: it is given the time and what flows have shown, and returns what
//! follows. It has no clock, reads and writes nothing, and waits for nobody.
//!
//! - An experiment divides time into blocks ([`plan`]), of a length that fits the path
//!   ([`lengths`]). Two blocks are a pair, one with tuning and one without, in an order that a
//!   coin decides. What flows show in a block is tallied ([`tally`]), by metrics ([`metric`]); the
//!   differences of pairs ([`differences`]) have a verdict ([`verdict`]) that holds at whatever
//!   time it is looked at. A block that nobody watched to its end counts for nothing ([`watch`]).
//! - A guard ([`guard`]) follows a path in which a policy is in force, and says when that is to
//!   go back to the kernel's defaults, for how long, and when it may return.
//!
//! Both rest on bets ([`bets`]): on what a claim denies, one can win a lot by chance only
//! seldom, however long one plays.
#![forbid(unsafe_code)]

pub mod bets;
pub mod differences;
pub mod experiment;
pub mod guard;
pub mod lengths;
pub mod metric;
pub mod plan;
pub mod saved;
pub mod tally;
pub mod verdict;
pub mod watch;
