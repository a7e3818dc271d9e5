//! Paths measured by ourselves, as NTAF did it for the WAD: what is run when, the tools
//! that run, and what is kept of what they find out.

pub mod answers;
pub mod archive;
pub mod measurement;
pub mod plan;
pub mod pscheduler;
pub mod row;
pub mod schedule;
pub mod service;
pub mod task;
pub mod tools;
mod wall_clock;
