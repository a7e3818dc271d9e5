//! The lab: real TCP of the real kernel in two network namespaces, joined by an
//! emulated long path in user space.
//!
//! Bottom up: `packet`, `burst`, `link`, `losses` and `delay_line` are the pure
//! parts; `tun` and `emulator` run them between two devices; `wan` sets up the
//! namespaces; `scenario`, `run`, `record` and `report` make experiments of it, `demo`, `table`
//! and `svg` show them.

pub mod bulk;
pub mod burst;
pub mod delay_line;
pub mod demo;
pub mod emulator;
pub mod iperf3;
pub mod link;
pub mod losses;
pub mod measure;
pub mod packet;
pub mod progress;
pub mod random;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod settings;
pub mod svg;
pub mod table;
pub mod tun;
pub mod units;
pub mod wan;
