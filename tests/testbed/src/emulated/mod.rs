//! A long path in user space joins two network namespaces.
//!
//! Bottom up: `packet`, `sack`, `burst`, `link`, `policer`, `losses`, `delay_line` and `flights`
//! are the pure parts; `direction` has them act on what passes from one `tun` to another, and
//! `emulator` runs two of those; `path` is
//! what a file says of one, in the `units` that files have, and `wan` sets up the
//! namespaces with it.

pub mod burst;
pub mod delay_line;
pub mod direction;
pub mod emulator;
pub mod flights;
pub mod link;
pub mod losses;
pub mod packet;
pub mod path;
pub mod policer;
mod sack;
pub mod tun;
pub mod units;
pub mod wan;
