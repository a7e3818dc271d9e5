//! The lab: real TCP of the real kernel in two network namespaces, joined by an
//! emulated long path in user space.
//!
//! Bottom up: `packet`, `sack`, `burst`, `link`, `losses`, `delay_line` and `flights`
//! are the pure parts; `tun` and `emulator` run them between two devices; `wan` sets
//! up the namespaces; `scenario`, `run` and `transfer` make experiments of it,
//! `monitor` has measured the path where nobody tells the agent of it; `record` makes
//! figures of what was seen, with `slow_start`, `recovery` and `responses`, and
//! `targets` holds them against what was to be shown; `report` and `store` keep them;
//! `demo`, `table`, `page` and `svg` show them.

pub mod bulk;
pub mod burst;
pub mod counters;
pub mod delay_line;
pub mod demo;
pub mod emulator;
pub mod flights;
pub mod iperf3;
pub mod link;
pub mod losses;
pub mod measure;
pub mod monitor;
pub mod packet;
pub mod page;
pub mod progress;
pub mod qdisc;
pub mod random;
pub mod record;
pub mod recovery;
pub mod report;
pub mod responses;
pub mod run;
mod sack;
pub mod scenario;
pub mod settings;
pub mod slow_start;
pub mod store;
pub mod svg;
pub mod table;
pub mod targets;
pub mod transfer;
pub mod tun;
pub mod udp;
pub mod units;
pub mod wan;
