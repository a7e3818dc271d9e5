//! Episodes are the kernel's trace of a flow as what happened to its window: congestion
//! events, and what came of them. Windows count segments. The trace's threshold is
//! `tcp_current_ssthresh()`: outside of CWR and Recovery it is at least three quarters
//! of the window.

use crate::trace::{Event, What};

// enum tcp_ca_state (include/uapi/linux/tcp.h)
pub const OPEN: u8 = 0;
pub const CWR: u8 = 2;
pub const RECOVERY: u8 = 3;

/// A stay in a state other than Open, with the windows around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// The time when it began, CLOCK_MONOTONIC.
    pub time_ns: u64,
    pub state: u8,
    /// The window at the packet before.
    pub cwnd_before: u32,
    pub ssthresh_before: u32,
    /// The least threshold in it.
    pub ssthresh_least: u32,
    /// Window and threshold at the first packet after it; none where the next one
    /// followed at once.
    pub after: Option<(u32, u32)>,
}

/// Returns one episode for each state that is entered and left, in order.
#[must_use]
pub fn episodes(events: &[Event]) -> Vec<Episode> {
    let mut episodes: Vec<Episode> = Vec::new();
    let mut state = OPEN;
    let (mut cwnd, mut ssthresh) = (0, 0);
    let mut just_ended = false;
    for event in events {
        match event.what {
            What::State(next) if next != state => {
                just_ended = state != OPEN;
                state = next;
                if next != OPEN {
                    just_ended = false;
                    episodes.push(Episode {
                        time_ns: event.time_ns,
                        state,
                        cwnd_before: cwnd,
                        ssthresh_before: ssthresh,
                        ssthresh_least: u32::MAX,
                        after: None,
                    });
                }
            }
            What::State(_) => {}
            What::Packet { cwnd_segments, ssthresh_segments } => {
                (cwnd, ssthresh) = (cwnd_segments, ssthresh_segments);
                let Some(last) = episodes.last_mut() else { continue };
                if state != OPEN {
                    last.ssthresh_least = last.ssthresh_least.min(ssthresh);
                } else if just_ended {
                    just_ended = false;
                    last.after = Some((cwnd, ssthresh));
                }
            }
        }
    }
    episodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_has_the_windows_around_it() {
        let packet =
            |cwnd_segments, ssthresh_segments| What::Packet { cwnd_segments, ssthresh_segments };
        let what = [
            packet(100, 90),
            What::State(1),
            packet(101, 90),
            What::State(RECOVERY),
            packet(90, 50),
            What::State(OPEN),
            packet(50, 50),
            packet(51, 50),
        ];
        let events: Vec<_> =
            (0..).zip(what).map(|(time_ns, what)| Event { time_ns, local_port: 1, what }).collect();
        let episodes = episodes(&events);
        let [disorder, recovery] = episodes[..] else { panic!("{episodes:?}") };
        assert_eq!((disorder.state, disorder.ssthresh_least), (1, 90));
        assert_eq!((recovery.state, recovery.time_ns), (RECOVERY, 3));
        assert_eq!((recovery.cwnd_before, recovery.ssthresh_before), (101, 90));
        assert_eq!((recovery.ssthresh_least, recovery.after), (50, Some((50, 50))));
        assert_eq!(disorder.after, None);
    }
}
