//! The policy as data: what a file says of paths, and what follows from it. Nothing
//! here changes a host.

pub mod capacity;
pub mod config;
pub mod derived;
pub mod event_name;
pub mod guarded;
pub mod heard;
pub mod kernel_algorithm;
pub mod law;
pub mod learned;
pub mod pair;
pub mod papers;
pub mod pod;
pub mod reservation;
pub mod response;
pub mod shares;
pub mod switch;
pub mod tuning_plan;
