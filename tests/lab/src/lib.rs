//! The lab runs real TCP of the real kernel in two network namespaces, joined by an
//! emulated long path in user space (`wad_testbed::emulated`), under `wad` or without.
//!
//! `scenario`, `run` and `transfer` make experiments of it, with `bulk`, `iperf3` and
//! `udp` as who sends, `fetch` for a client that gets what a server has; `second_path` has
//! connections beside it that nobody reads, by `unread`; `monitor` has measured the path
//! where nobody tells the agent of it; `suggested` asks what `wad` would suggest; `probe` holds
//! what probes find out against their paths, `experiment` what experiments do, with connections
//! one after the other by `again`, and `guard` what guards do; `record` makes figures of what was seen, with
//! `slow_start`, `recovery` and `responses`, `memory` watches what TCP holds, and
//! `targets` holds figures against what was to be shown, `simulated` what `wad simulate` says against
//! what was measured; `report` and
//! `store` keep them; `demo`, `table`, `page` and `svg` show them. `bench` has what wad
//! costs, `compare` the laws beside the kernel's own, and `cli` what their programs
//! have in common.

mod again;
mod algorithm;
pub mod bench;
mod beside;
pub mod bulk;
pub mod cli;
pub mod client;
pub mod compare;
pub mod counters;
pub mod demo;
pub mod experiment;
mod fetch;
pub mod guard;
pub mod iperf3;
pub mod lab;
pub mod measure;
pub mod memory;
pub mod monitor;
pub mod page;
pub mod probe;
pub mod processors;
pub mod progress;
pub mod record;
pub mod recovery;
pub mod report;
pub mod responses;
pub mod run;
pub mod scenario;
mod second_path;
pub mod simulated;
pub mod slow_start;
pub mod store;
mod suggested;
pub mod svg;
pub mod table;
pub mod targets;
pub mod transfer;
pub mod udp;
pub mod unread;
