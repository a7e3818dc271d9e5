//! The parsers of what comes from outside, for libFuzzer (`tests/fuzz`). Whatever the
//! bytes are: they are read or refused, soon and without a panic, and what is made of
//! them keeps what it promises, as far as that is asserted here.

use std::sync::LazyLock;

pub use wad_agent::api::fuzz_authorization as authorization;
pub use wad_agent::dns::fuzz as dns;
pub use wad_agent::evidence::fuzz as experiments;
pub use wad_agent::guards::fuzz as guards;
pub use wad_agent::pods::fuzz as pods;
pub use wad_agent::sources::{
    fuzz::http, fuzz_archive as archive, fuzz_document as document, fuzz_probe as probe_paths,
    fuzz_prometheus as prometheus, fuzz_pscheduler as pscheduler,
};
use wad_agent::{pods as pods_of_nodes, sets, sources::Cache};
use wad_instruments::{Flow, STANDARD, Values};
use wad_linux::{cgroup, netns};
use wad_observing::{learn, reading::Filter, trace};
pub use wad_observing::{
    metrics::otlp::fuzz as otlp, sinks::fuzz as spool, trace::read::fuzz_packed as packed_trace,
};
pub use wad_peers::{
    identity::fuzz as peer_certificate, message::fuzz as peer_message,
    reservation::fuzz as peer_reservation,
};
pub use wad_policy::{config::fuzz_set as set, papers::fuzz as papers};
use wad_policy::{
    config::{self, Config, ConfigError, fuzz::HOST},
    derived::{Definition, Derived},
    switch,
};
pub use wad_probing::tools::{
    fuzz::{helper as probe_helper, message as probe_message},
    fuzz_pscheduler as probe_pscheduler,
};
use wad_tuning::explain::Query;

use crate::{check, plot};

/// A configuration, of several files where zeros part them, and what `wad check` says of it.
pub fn config(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let texts = config::fuzz::texts(text);
    let parsed = || Config::check(&texts, &HOST);
    match parsed() {
        Ok(config) => {
            check::fuzz(&config, &HOST);
            // What is no number is not equal to itself.
            assert_eq!(parsed().ok(), Some(config));
        }
        Err(ConfigError::Invalid { errors, report, .. }) => {
            assert!(errors > 0 && report.len() < 100_000);
        }
        Err(other) => panic!("{other}"),
    }
}

/// Derived events, one a line, called A and so on, and their values.
pub fn derived(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut derived = Derived::default();
    for (name, line) in ('A'..='H').zip(text.split('\n')) {
        match Definition::parse(&name.to_string(), line, &derived) {
            Ok(definition) => derived.0.push(definition),
            Err(mistake) => assert!(line.get(mistake.at).is_some()),
        }
    }
    let mut earlier: Option<Values> = None;
    for flow in &*FLOWS {
        let mut flow = flow.clone();
        derived.extend(std::slice::from_mut(&mut flow), |_| earlier.as_ref());
        let values = || flow.instruments.iter().map(|(_, value)| value);
        assert_eq!(values().count(), flow.instruments.names().len());
        assert!(values().flatten().all(f64::is_finite));
        earlier = Some(flow.instruments);
    }
}

/// These are readings of one flow with all instruments, with values as small and as
/// large as can be.
static FLOWS: LazyLock<Vec<Flow>> = LazyLock::new(|| {
    let values = [0.0, 1.0, -1.0, 1e-300, 1448.0, f64::MAX, f64::MIN];
    let flow = |value| Flow {
        cookie: 1,
        netns: 1,
        path: "a".into(),
        local: ([10, 0, 0, 1], 1).into(),
        remote: ([10, 0, 0, 2], 2).into(),
        role: "connected".into(),
        outcome: "tuned".into(),
        refused: vec![],
        congestion: "cubic".into(),
        owner: wad_instruments::Owner::default(),
        instruments: STANDARD.iter().map(|known| (known.name, Some(value))).collect(),
    };
    values.map(flow).to_vec()
});

/// A trace, and what is drawn of it.
pub fn trace(bytes: &[u8]) {
    trace::read::fuzz(bytes);
    plot::fuzz(bytes);
}

/// Reads what the Unix socket is asked.
pub fn query(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(filter) = Filter::parse(text) {
        assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
    }
    if let Ok(query) = Query::parse(text) {
        assert_eq!(Query::parse(&query.to_string()), Ok(query));
    }
    let _ = serde_json::from_str::<switch::Order>(text);
}

/// Reads what an agent before this one has left: its journal, what it measured, and
/// what was disabled.
pub fn state(bytes: &[u8]) {
    wad_tuning::journal::fuzz(bytes);
    Cache::fuzz(bytes);
    sets::Cache::fuzz(bytes);
    pods_of_nodes::Cache::fuzz(bytes);
    learn::fuzz(bytes);
    if let Ok(disabled) = serde_json::from_slice::<switch::Disabled>(bytes) {
        let written = serde_json::to_vec(&disabled).expect("texts are JSON");
        assert_eq!(serde_json::from_slice::<switch::Disabled>(&written).ok(), Some(disabled));
    }
}

/// Tables of the kernel's, in which others have put names.
pub fn proc(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let _ = cgroup::cgroup2_mount(text);
    let _ = text.lines().filter_map(netns::mounted).count();
    let _ = config::loadable(text);
}
