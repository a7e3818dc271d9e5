//! The agent: it starts, reloads, asks sources, answers, and stops.

pub mod api;
pub mod client;
pub mod dns;
pub mod evidence;
pub mod explainer;
pub mod flow_log;
mod gzip;
pub mod handing_over;
pub mod heard;
pub mod measured;
mod otlp;
pub mod own_lock;
mod page;
pub mod paths;
pub mod peers;
pub mod pods;
pub mod probes;
pub mod probes_alone;
pub mod reload;
pub mod run;
mod service_manager;
pub mod sets;
pub mod sources;
mod state_file;
pub mod status;
pub mod switched;
pub mod traces;
