//! One run of a task: its host is looked up, and its tool measures.

use std::{net::IpAddr, sync::Arc, time::Duration};

use tokio::{
    net::lookup_host,
    time::{Instant, timeout},
};
use wad_toolbox::causes::told;

use crate::{row::Ending, task::Task, tools};

/// Says what has come of a run.
pub struct Outcome {
    /// None where the host came to none.
    pub address: Option<IpAddr>,
    pub ending: Ending,
}

/// Runs the task's tool. All is over when this is dropped.
pub async fn run(task: Arc<Task>) -> Outcome {
    let (begun, deadline) = (Instant::now(), task.config.timeout);
    let address = match timeout(deadline, look_up(&task)).await {
        Ok(Ok(address)) => address,
        Ok(Err(why)) => return Outcome { address: None, ending: Ending::Failed(why) },
        Err(_) => return Outcome { address: None, ending: Ending::TimedOut },
    };
    let left = deadline.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
    let ending = match tools::run(&task.tool, &task.target(address, left)).await {
        Ok(measurement) => Ending::Measured(measurement),
        Err(error) => error.ending(),
    };
    Outcome { address: Some(address), ending }
}

/// Returns the address of the task's host: it may have another one than at the last run.
async fn look_up(task: &Task) -> Result<IpAddr, String> {
    let host = &*task.config.host;
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let found = lookup_host((host, 0)).await;
    let found = found.map_err(|error| format!("cannot look up {host}: {}", told(&error)))?;
    let mut found = found.map(|address| address.ip().to_canonical());
    found.find(|address| task.takes(*address)).ok_or_else(|| {
        let family = if task.takes([0, 0, 0, 0].into()) { "IPv4" } else { "IPv6" };
        format!("{host} has no address of {family}")
    })
}
