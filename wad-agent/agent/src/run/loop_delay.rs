//! The delay of the event loop is how late it comes to what is due: whatever holds it up for
//! long keeps reloads, answers and events waiting.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior, interval};
use wad_observing::metrics::Delays;
use wad_toolbox::mutex::locked;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Looks how late the loop is, for as long as it runs.
pub async fn watch(delays: Arc<Mutex<Delays>>) {
    let mut looks = interval(LOOK);
    // Each look is a second after the last, however late that was.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = looks.tick().await;
        locked(&delays).add(Instant::now().saturating_duration_since(due));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn what_holds_the_loop_up_is_seen() {
        let delays = Arc::default();
        let watching = tokio::spawn(watch(Arc::clone(&delays)));
        let seen = || locked(&delays).of;
        while seen().count() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(seen().sum < 0.5, "{:?}", seen());
        // It is due in a second, and comes half a second late.
        thread::sleep(Duration::from_millis(1500));
        while seen().count() == 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!((0.4..1.5).contains(&seen().sum), "{:?}", seen());
        watching.abort();
    }
}
