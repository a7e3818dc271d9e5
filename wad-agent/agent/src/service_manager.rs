//! The service manager that holds the agent, such as systemd, hears how it fares
//! (sd_notify(3)). Without NOTIFY_SOCKET there is none, and nothing is sent.

use std::{env, fs, future, process::Command, sync::Arc};

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::warn;
use wad_instruments::Place;

/// Says that all is in force, with a line on how that is.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Says that the configuration is being read again, until [`ready`] follows.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => warn!("the service manager is not told of a reload: {error}"),
    }
}

/// Replaces the line on how all is.
pub fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// Whether systemd stops the agent to start it again at once, as `systemctl restart` does. A
/// service is not told; the list of jobs has it.
pub fn restarts() -> bool {
    let Some(unit) = unit() else { return false };
    let jobs = Command::new("systemctl").args(["list-jobs", "--plain", "--no-legend"]).output();
    jobs.is_ok_and(|jobs| has_restart(&String::from_utf8_lossy(&jobs.stdout), &unit))
}

/// Returns the unit that holds this process, if one does: systemd has a cgroup for each.
pub fn unit() -> Option<Arc<str>> {
    // Whoever starts the agent by hand is in one, too.
    env::var_os("NOTIFY_SOCKET")?;
    let table = fs::read_to_string("/proc/self/cgroup").ok()?;
    Place::of(table.lines().find_map(|line| line.strip_prefix("0::/"))?).unit
}

/// Looks for a job in lines such as `12 wad.service restart running`.
fn has_restart(jobs: &str, unit: &str) -> bool {
    jobs.lines().any(|job| job.split_whitespace().skip(1).take(2).eq([unit, "restart"]))
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("the service manager cannot be told: {error}");
    }
}

/// A watchdog of the service manager's ends an agent that it has not heard of for long
/// (`WatchdogSec=`).
pub struct Watchdog {
    /// Times to be heard of: two in what it waits.
    due: Option<Interval>,
}

impl Watchdog {
    pub fn of_service_manager() -> Self {
        let half = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        let due = half.filter(|half| !half.is_zero()).map(|half| {
            let mut due = interval(half);
            due.set_missed_tick_behavior(MissedTickBehavior::Delay);
            due
        });
        Self { due }
    }

    /// Waits until it is time to be heard of, which is never without a watchdog.
    pub async fn due(&mut self) {
        match &mut self.due {
            Some(due) => _ = due.tick().await,
            None => future::pending().await,
        }
    }

    pub fn feed() {
        tell(&[NotifyState::Watchdog]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_told_from_a_stop() {
        let jobs = "  7 wad.service restart running\n 12 other.service stop  waiting\n";
        assert!(has_restart(jobs, "wad.service"));
        assert!(!has_restart(jobs, "other.service"));
        assert!(!has_restart(jobs, "wad"));
        assert!(!has_restart("", "wad.service"));
    }
}
