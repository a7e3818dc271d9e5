//! The hosts that tasks name: mostly by name, where paths have addresses.
//!
//! Which names there are, and how many, is the server's to say, and a name server may keep
//! silent: look-ups are bounded in number and time, and what is known is not asked again
//! with each poll.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};
use wad_http::{
    HttpError,
    names::{self, Turns},
};

use crate::sources::{SourceError, Targets};

/// Names that are known at a time: meshes have hundreds of hosts.
const MOST_NAMES: usize = 4096;
/// A name is looked up again so long after it was found.
const FOUND_FOR: Duration = Duration::from_secs(600);
/// A name is looked up again so long after it was not found.
const MISSING_FOR: Duration = Duration::from_secs(60);

/// Holds what was found of names, from one poll to the next.
#[derive(Debug, Default)]
pub struct Known(HashMap<String, Name>);

#[derive(Debug, Default)]
struct Name {
    /// The addresses when it was found last: they serve on while it is not found.
    addresses: Vec<IpAddr>,
    /// Why it is not found now.
    error: Option<(io::ErrorKind, String)>,
    again_at: Option<Instant>,
}

/// A way to look up names.
#[derive(Clone, Copy)]
struct Way {
    turns: &'static Turns,
    resolve: fn(&str) -> io::Result<Vec<SocketAddr>>,
}

/// An outcome says what a look-up found.
struct Outcome {
    name: String,
    found: io::Result<Vec<SocketAddr>>,
}

impl Known {
    /// Looks up names that are not known yet, all in so much time. What is not found is
    /// said.
    pub async fn look_up(
        &mut self,
        names: BTreeSet<&str>,
        most: Duration,
        errors: &mut Vec<SourceError>,
    ) -> Hosts {
        let way = Way { turns: &names::TURNS, resolve: names::look_up };
        self.look_up_by(names, most, errors, way).await
    }

    async fn look_up_by(
        &mut self,
        names: BTreeSet<&str>,
        most: Duration,
        errors: &mut Vec<SourceError>,
        way: Way,
    ) -> Hosts {
        let deadline = Instant::now() + most;
        let names: Vec<&str> =
            names.into_iter().filter(|name| name.parse::<IpAddr>().is_err()).collect();
        self.0.retain(|name, _| names.binary_search(&name.as_str()).is_ok());
        // Those whose turn does not come end with this set.
        let mut tasks = JoinSet::new();
        let mut begun = HashMap::new();
        for name in names.iter().take(MOST_NAMES).filter(|name| self.is_due(name)) {
            let has_begun = Arc::new(AtomicBool::new(false));
            begun.insert((*name).to_owned(), Arc::clone(&has_begun));
            tasks.spawn(look_up((*name).to_owned(), has_begun, way));
        }
        while let Ok(Some(outcome)) = timeout_at(deadline, tasks.join_next()).await {
            // It fails only as the runtime ends.
            let Ok(Outcome { name, found }) = outcome else { continue };
            begun.remove(&name);
            self.note(name, found);
        }
        // Those that keep silent are not waited for again so soon, and do not keep others
        // from their turn.
        for (name, has_begun) in begun {
            if has_begun.load(Ordering::Relaxed) {
                self.note(name, Err(io::ErrorKind::TimedOut.into()));
            }
        }
        self.hosts(&names, errors)
    }

    fn is_due(&self, name: &str) -> bool {
        let again_at = self.0.get(name).and_then(|known| known.again_at);
        again_at.is_none_or(|again_at| again_at <= Instant::now())
    }

    fn note(&mut self, name: String, found: io::Result<Vec<SocketAddr>>) {
        let known = self.0.entry(name).or_default();
        let (error, time) = match found {
            Ok(addresses) => {
                known.addresses = addresses.into_iter().map(|address| address.ip()).collect();
                (None, FOUND_FOR)
            }
            Err(error) => (Some((error.kind(), error.to_string())), MISSING_FOR),
        };
        (known.error, known.again_at) = (error, Some(Instant::now() + time));
    }

    /// Returns the addresses that are known, and says which are not.
    fn hosts(&self, names: &[&str], errors: &mut Vec<SourceError>) -> Hosts {
        let mut hosts = Hosts::default();
        for &name in names {
            let source = match self.0.get(name) {
                Some(Name { error: None, .. }) => None,
                Some(Name { error: Some((kind, text)), .. }) => {
                    Some(io::Error::new(*kind, text.clone()))
                }
                None => Some(io::ErrorKind::TimedOut.into()),
            };
            if let Some(source) = source {
                errors.push(HttpError::Resolve { host: name.to_owned(), source }.into());
            }
            let known = self.0.get(name).filter(|known| !known.addresses.is_empty());
            if let Some(known) = known {
                hosts.0.insert(name.to_owned(), known.addresses.clone());
            }
        }
        hosts
    }
}

async fn look_up(name: String, has_begun: Arc<AtomicBool>, way: Way) -> Outcome {
    let turn = way.turns.take().await;
    has_begun.store(true, Ordering::Relaxed);
    let found = turn.look_up(name.clone(), way.resolve).await;
    Outcome { name, found }
}

/// Addresses by name.
#[derive(Debug, Default)]
pub struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    /// Returns the host's addresses; none if they could not be found.
    pub fn of(&self, host: &str) -> Vec<IpAddr> {
        let given = host.parse().map(|address| vec![address]).ok();
        given.or_else(|| self.0.get(host).cloned()).unwrap_or_default()
    }

    /// The paths that it is in.
    pub fn targets(&self, host: &str, targets: &Targets) -> Vec<usize> {
        let named = targets.named(host).map(|target| vec![target]);
        let around = || {
            let found = self.of(host).into_iter().flat_map(|at| targets.find(&at.to_string()));
            found.collect::<BTreeSet<_>>().into_iter().collect()
        };
        named.unwrap_or_else(around)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::sources::testing::two_paths;

    #[test]
    fn a_host_is_in_the_paths_of_all_its_addresses() {
        let addresses = ["10.0.0.1", "2001:db8::1", "10.0.0.2", "192.0.2.1"];
        let addresses = addresses.map(|address| address.parse().unwrap()).to_vec();
        let hosts = Hosts(HashMap::from([("host.example".to_owned(), addresses)]));
        let targets = two_paths();
        assert_eq!(hosts.targets("host.example", &targets), [0, 1]);
        assert_eq!(hosts.targets("b", &targets), [1]);
        assert_eq!(hosts.targets("10.9.9.9", &targets), [0]);
        assert_eq!(hosts.targets("other.example", &targets), [0; 0]);
    }

    const PATIENCE: Duration = Duration::from_millis(300);

    /// Counts look-ups: all, those under way, and the most at a time.
    static LOOK_UPS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

    /// Keeps silent for long about some names, longer than anyone waits.
    fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
        let [all, under_way, most] = &LOOK_UPS;
        all.fetch_add(1, Ordering::SeqCst);
        most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let found = match name.split_once('.').unwrap_or_default().0 {
            "silent" => {
                std::thread::sleep(4 * PATIENCE);
                Err(io::ErrorKind::TimedOut.into())
            }
            "none" => Err(io::Error::new(io::ErrorKind::NotFound, "no such name")),
            _ => Ok(vec!["10.0.0.1:0".parse().unwrap()]),
        };
        under_way.fetch_sub(1, Ordering::SeqCst);
        found
    }

    #[tokio::test]
    async fn look_ups_are_bounded_given_up_and_remembered() {
        let count = || LOOK_UPS[0].load(Ordering::SeqCst);
        let silent: Vec<String> = (0..1000).map(|number| format!("silent.{number}")).collect();
        let names = || {
            let silent = silent.iter().map(String::as_str);
            silent.chain(["good.example", "none.example", "192.0.2.1"]).collect::<BTreeSet<_>>()
        };
        static TURNS: Turns = Turns::new();
        let way = Way { turns: &TURNS, resolve };
        let mut known = Known::default();
        let mut poll = async |names: BTreeSet<&str>| {
            let (begun, mut errors) = (Instant::now(), Vec::new());
            let hosts = known.look_up_by(names, PATIENCE, &mut errors, way).await;
            assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
            (hosts, errors)
        };
        let good = BTreeSet::from(["good.example", "none.example"]);
        let (hosts, errors) = poll(good.clone()).await;
        assert_eq!((hosts.of("good.example").len(), errors.len(), count()), (1, 1, 2));
        assert!(wad_toolbox::causes::told(&errors[0]).contains("no such name"), "{errors:?}");

        // Many that keep silent: what is known serves on, and is not asked again.
        let (hosts, errors) = poll(names()).await;
        assert_eq!((hosts.of("good.example").len(), errors.len()), (1, 1001));
        assert_eq!(count(), 2 + names::AT_ONCE);
        // None of those that were given up begins any more.
        tokio::time::sleep(5 * PATIENCE).await;
        assert_eq!(count(), 2 + names::AT_ONCE);

        // Those that kept silent do not hold up a new one.
        let mut more = BTreeSet::from(["zzz.example"]);
        let asked = names().into_iter().filter(|name| name.starts_with("silent"));
        more.extend(asked.take(names::AT_ONCE));
        let (hosts, errors) = poll(more).await;
        assert_eq!((hosts.of("zzz.example").len(), errors.len()), (1, names::AT_ONCE));
        assert_eq!(count(), 3 + names::AT_ONCE);
        assert_eq!(LOOK_UPS[2].load(Ordering::SeqCst), names::AT_ONCE);
    }
}
