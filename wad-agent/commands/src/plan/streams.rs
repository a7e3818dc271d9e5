//! How many standard flows fill a path together, and with which buffers: for paths on
//! which nothing else can be changed.

use schemars::JsonSchema;
use serde::Serialize;
use wad_common::law::{Aimd, MIN_WINDOW_SEGMENTS};
use wad_policy::{
    config::{MAX_BUFFER_BYTES, auto_buffer_bytes},
    response::Response,
};

use super::{Question, simulation};

/// The numbers of streams that are shown beside the one asked for.
const NUMBERS: [u32; 5] = [1, 2, 4, 8, 16];

/// Standard flows that fill the path together, each with an equal part.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StreamsPlan {
    pub streams: u32,
    /// The window of each.
    pub window_segments: u32,
    /// The size of each socket buffer, as `"auto"` has it for that window.
    pub buffer_bytes: u64,
    /// Time from one loss of one of them until the path is full again. The others grow meanwhile.
    pub recovery_seconds: f64,
    /// Loss rate at which their mean windows just fill the path.
    pub filling_loss: f64,
}

impl StreamsPlan {
    fn new(question: &Question, streams: u32) -> Self {
        let path = question.path();
        let window_segments = path.bdp_segments().div_ceil(streams).max(MIN_WINDOW_SEGMENTS);
        let buffer_bytes = auto_buffer_bytes(path.bdp_bytes() / f64::from(streams));
        let recovery_rtts = simulation::recovery_rtts(&|_| Aimd::STANDARD, window_segments);
        Self {
            streams,
            window_segments,
            buffer_bytes: buffer_bytes.min(MAX_BUFFER_BYTES),
            recovery_seconds: recovery_rtts.div_ceil(streams.into()) as f64 * path.rtt_seconds,
            filling_loss: Response::standard().loss(f64::from(window_segments)),
        }
    }
}

/// Returns the rows of the table, one of them of so many as fill the path in spite of its
/// losses, where those are known.
pub fn of(question: &Question, by_losses: Option<u64>) -> Vec<StreamsPlan> {
    // A path has 2^32 segments at most.
    let by_losses = by_losses.map(|streams| streams as u32);
    let mut numbers: Vec<u32> =
        NUMBERS.into_iter().chain([question.streams]).chain(by_losses).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|streams| StreamsPlan::new(question, streams)).collect()
}
