//! Another host of the sender's site probes a path before anything is sent over it, and tells
//! what it has found out.

use std::{net::TcpListener, path};

use anyhow::Result;
use wad_testbed::{
    emulated::{
        path::Path,
        wan::{ADDRESSES_V4, Wan},
    },
    settings, sysctl,
};

use crate::probe::End;

/// The far end takes what the path carries, as a host that is there to be measured to.
const BUFFERS: &str = "4096 131072 268435456";

/// It answers until it is dropped, at a path that is not there any more.
pub struct Prober {
    _service: End,
    port: u16,
}

impl Prober {
    /// Measures a path like this one, from the namespace of this process, where its answers
    /// are.
    pub fn start(path: &Path, wad: &path::Path) -> Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let wan = Wan::start_from_here(path)?;
        settings::apply_to(wan.b())?;
        wan.b().run(|| sysctl::set("net.ipv4.tcp_rmem", BUFFERS))??;
        let there = ADDRESSES_V4[1];
        let answers = "answer = '[::]:4824'\nanswer_to = '10.77.0.0/16'\n";
        let _far = End::start(wad, Some(wan.b()), answers)?;
        let tasks = ["bandwidth", "rtt"].map(|tool| {
            let echo = if tool == "rtt" { "echo = 'udp'\n" } else { "max_bytes = '1GiB'\n" };
            format!(
                "[[probe.task]]\nname = '{tool}'\nhost = '{there}'\ntool = '{tool}'\n\
                 every = '7d'\n{echo}"
            )
        });
        let own = format!("listen = '127.0.0.1:{port}'\n{}", tasks.concat());
        let service = End::start(wad, None, &own)?;
        for task in ["bandwidth", "rtt"] {
            service.measure(task)?;
        }
        Ok(Self { _service: service, port })
    }

    pub const fn port(&self) -> u16 {
        self.port
    }
}
