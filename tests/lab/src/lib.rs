//! The lab runs real TCP of the real kernel in two network namespaces, joined by an
//! emulated long path in user space (`wad_testbed::emulated`), under `wad` or without.
//!
//! `scenario`, `run` and `transfer` make experiments of it, with `bulk`, `iperf3` and
//! `udp` as who sends, `fetch` for a client that gets what a server has; `second_path` has
//! connections beside it that nobody reads, by `unread`; `monitor` has measured the path
//! where nobody tells the agent of it; `bpftune` runs in place of an agent; `suggested` asks what `wad` would suggest; `probe` holds
//! what probes find out against their paths, `experiment` what experiments do, with connections
//! one after the other by `again`, and `guard` what guards do; `record` makes figures of what was seen, with
//! `slow_start`, `decrease`, `recovery` and `responses`, `memory` watches what TCP holds, and
//! `simulated` sets what `wad simulate` says beside what was measured. `probe`, `experiment` and `guard` are no
//! transfers under variants of a policy, but studies (`study`).
//!
//! Results go this way: `report` is what was measured (`measured` says when and with what), which
//! `store` keeps and `results` finds again; `landing` cuts it to `landed`, which the repository
//! keeps; `targets` holds that against what was to be shown; `chapter` makes a page of it,
//! `pictures` and `svg` its pictures. `demo` and `table` show results to who has just run them.
//! `bench` has what wad costs, `compare` the laws beside the kernel's own, and `cli` what their
//! programs have in common.

mod again;
mod algorithm;
pub mod bench;
mod beside;
mod bpftune;
pub mod bulk;
pub mod chapter;
pub mod cli;
pub mod client;
pub mod compare;
pub mod counters;
pub mod decrease;
pub mod demo;
pub mod experiment;
mod fetch;
pub mod grid;
pub mod guard;
pub mod iperf3;
pub mod lab;
pub mod landed;
pub mod landing;
pub mod measure;
pub mod measured;
pub mod memory;
pub mod monitor;
pub mod pictures;
pub mod probe;
pub mod processors;
pub mod progress;
pub mod record;
pub mod recovery;
pub mod report;
pub mod responses;
pub mod results;
pub mod run;
pub mod scenario;
mod second_path;
pub mod simulated;
pub mod slow_start;
pub mod store;
pub mod study;
mod suggested;
pub mod svg;
pub mod table;
pub mod targets;
pub mod transfer;
pub mod udp;
pub mod unread;
pub mod whose;
