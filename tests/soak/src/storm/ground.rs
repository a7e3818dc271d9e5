//! The ground of a soak: two joined network namespaces, a cgroup, the agent's home with a policy of
//! many paths, and services that its sources and sinks talk to.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use anyhow::Result;
use wad_testbed::{
    answers::{Answer, Answers},
    cgroup::{Cgroup, Joined},
    metrics::Metrics,
    process::{Place, run_command},
    veth::Wire,
    wad::{Agent, Home},
};

use crate::kills::{Build, Builds};

/// A path of short connections, the address of its far end, and two policies of it.
pub struct Target {
    /// None is of no path.
    pub name: Option<&'static str>,
    pub address: &'static str,
    policies: [&'static str; 2],
}

pub const TARGETS: [Target; 6] = [
    Target {
        name: Some("given"),
        address: "10.81.1.1",
        policies: [
            "sndbuf = '100000'\nrcvbuf = '100000'\ncongestion = 'wad_aimd'",
            "sndbuf = '150000'\nrcvbuf = '120000'\ncongestion = 'wad_binomial'",
        ],
    },
    Target {
        name: Some("automatic"),
        address: "10.81.1.2",
        policies: [
            "bandwidth = '100Mbit'\nrtt = '20ms'\nsndbuf = 'auto'\ncongestion = 'wad_aimd'",
            "bandwidth = '100Mbit'\nrtt = '20ms'\nbuffers = 'autotune'",
        ],
    },
    Target {
        name: Some("window"),
        address: "fd81::1:1",
        policies: ["initial_window = 8", "initial_window = 10\ncongestion = 'wad_aimd'"],
    },
    Target {
        name: Some("measured"),
        address: "fd81::1:2",
        policies: ["mode = 'measured'\nbandwidth = '400Mbit'\nrtt = '40ms'\nsndbuf = 'auto'"; 2],
    },
    Target {
        name: Some("paced"),
        address: "10.81.1.3",
        policies: [
            "congestion = 'wad_aimd'\npacing = '2Gbit'\noverride_setsockopt = true",
            "congestion = 'wad_aimd'\npacing = '1Gbit'",
        ],
    },
    Target { name: None, address: "10.81.1.9", policies: [""; 2] },
];

/// The path of the ends that accept connections over IPv4.
pub const ACCEPTED: &str = "accepted";
pub const PORT: u16 = 7000;
/// The path of few connections that last.
pub const LONG: (&str, &str, u16) = ("long", "10.81.1.4", 7002);
/// The path of connections within network namespaces that come and go.
pub const PODS: (&str, &str) = ("pods", "127.0.0.2");

/// All of it, gone when dropped.
pub struct Ground<'a> {
    // Dropped in this order.
    pub home: Home,
    services: Option<Services>,
    pub wire: Wire,
    _joined: Joined,
    pub cgroup: Cgroup,
    pub builds: &'a Builds,
}

impl<'a> Ground<'a> {
    pub fn start(builds: &'a Builds) -> Result<Self> {
        let cgroup = Cgroup::create("soak")?;
        let joined = Joined::to(&cgroup)?;
        let wire = Wire::under_settings_of_host()?;
        for address in TARGETS.iter().map(|target| target.address).chain([LONG.1]) {
            wire.add_to_b(address)?;
        }
        let services = wire.a().run(Services::start)??;
        let home = Home::create(&builds.program(Build::This), "")?;
        home.keep_on_exit(true);
        let ground = Self { home, services: Some(services), wire, _joined: joined, cgroup, builds };
        ground.write_policy(0)?;
        Ok(ground)
    }

    /// Writes the first policy of each path or the second, and a path more with the second.
    pub fn write_policy(&self, which: usize) -> Result<()> {
        let path = |name: &str, remote: &str, keys: &str| {
            format!("[[path]]\nname = '{name}'\nremote = '{remote}'\n{keys}\n")
        };
        let mut text = format!(
            "[limits]\nmax_memory = '1GiB'\nchange_interval = '1s'\n\
             [[source]]\nname = 'service'\nkind = 'http'\nurl = 'http://{}'\n\
             interval = '1s'\ntimeout = '1s'\n\
             [[sink]]\nname = 'service'\nkind = 'http'\nurl = 'http://{}/events'\n\
             [[sink]]\nname = 'file'\nkind = 'file'\npath = '{}'\n",
            self.services().source.address(),
            self.services().sink.address(),
            self.home.folder().join("events.jsonl").display(),
        );
        for target in &TARGETS {
            if let Some(name) = target.name {
                text += &path(name, target.address, target.policies[which]);
            }
        }
        let port = format!("local_port = {PORT}\nrcvbuf = '100000'");
        text += &path(ACCEPTED, "10.81.0.1", &port);
        text += &path(LONG.0, LONG.1, "congestion = 'wad_aimd'");
        text += &path(PODS.0, PODS.1, "congestion = 'wad_aimd'");
        if which == 1 {
            text += &path("comes", "10.81.2.0/24", "congestion = 'wad_delay'");
        }
        Ok(self.home.write_policy(&text)?)
    }

    pub const fn services(&self) -> &Services {
        self.services.as_ref().expect("they are there until the end")
    }

    pub fn reload(&self) -> Result<()> {
        run_command(&mut self.home.command("reload"))?;
        Ok(())
    }

    /// Starts an agent, and waits until it is ready.
    pub fn agent(&self, build: Build) -> Result<Agent<'_>> {
        let place = Place { netns: Some(self.wire.a()), cgroup: None };
        Ok(self.home.start_program(&self.builds.program(build), place, &self.cgroup)?)
    }

    pub fn metrics(&self) -> Result<Metrics> {
        let port = self.home.metrics_port();
        Ok(self.wire.a().run(|| Metrics::read(port))??)
    }

    /// Says what is left where an agent has ended for good: nothing is to be.
    pub fn left_behind(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for path in [self.home.pins(), self.home.journal()] {
            if path.exists() {
                left.push(format!("{} is left", path.display()));
            }
        }
        let unfinished = fs::read_dir(self.home.state())?
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().ends_with(".new"));
        left.extend(unfinished.map(|entry| format!("{} is left", entry.path().display())));
        Ok(left)
    }
}

impl Drop for Ground<'_> {
    fn drop(&mut self) {
        // They end by a connection, which finds them there alone.
        let services = self.services.take();
        let _ = self.wire.a().run(|| drop(services));
    }
}

/// A service speaks for a source, and one takes what goes to a sink, well or badly.
pub struct Services {
    source: Answers,
    sink: Answers,
    modes: [Arc<AtomicU8>; 2],
}

/// So many ways to answer there are.
pub const MODES: u64 = 5;

impl Services {
    fn start() -> std::io::Result<Self> {
        const MEASURED: &str = r#"{"paths": [{"path": "measured", "rtt_seconds": 0.04,
                                              "bandwidth_bits_per_second": 500e6}]}"#;
        let modes = [(); 2].map(|()| Arc::new(AtomicU8::new(0)));
        let answers = |mode: &Arc<AtomicU8>, good: &'static str| {
            let mode = Arc::clone(mode);
            Answers::start(move |_| match mode.load(Ordering::Relaxed) {
                0 => Answer::json(good),
                1 => Answer::Whole("503 Service Unavailable", "text/plain", String::new()),
                2 => Answer::Raw(vec![0xff; 10_000]),
                3 => Answer::Large(1 << 24),
                _ => Answer::Drip,
            })
        };
        Ok(Self { source: answers(&modes[0], MEASURED)?, sink: answers(&modes[1], "{}")?, modes })
    }

    /// Has the source or the sink answer in another way.
    pub fn change(&self, which: u64, mode: u64) {
        self.modes[which as usize % 2].store(mode as u8, Ordering::Relaxed);
    }
}
