//! `page` measures what the page costs of time and memory with ten thousand flows, while a
//! thousand clients keep it waiting. With `--look` it opens all pages in Chromium as well, with
//! no flow, ten and ten thousand: narrow and wide, light and dark, with scripts and without. It
//! leaves pictures, has axe-core judge each page, and sees that nothing is asked of others.
//!
//! `page_seconds` is what the agent says that a page took (Server-Timing), from the reading of the
//! flows to the finished text. `answer_seconds` is what a client waits for one beside the slow.

mod browser;
mod look;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_testbed::{cgroup::Cgroup, netns::Netns, say, wad::Home};

use super::{Outcome, Report, Target, instruments, proc};

const NAMESPACES: usize = 4;
const FLOWS: [usize; 3] = [0, 10, 10_000];
const READS: usize = 15;
const SLOW: usize = 1_000;
/// A client that comes beside slow ones is answered within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pages, each with a name for files.
const PAGES: [(&str, &str); 6] = [
    ("paths", "/"),
    ("path", "/path?name=bench"),
    ("flows", "/flows"),
    ("flows-all", "/flows?all=1&rows=200&sort=remote"),
    ("events", "/events"),
    ("host", "/host"),
];

/// How pages are looked at in a browser.
#[derive(Debug, clap::Args)]
pub struct Look {
    /// Open the pages in Chromium, and leave pictures in this folder
    #[arg(long, value_name = "FOLDER")]
    look: Option<PathBuf>,
    /// Judge each page by axe-core, of this file (`npm pack axe-core` has axe.min.js)
    #[arg(long, value_name = "FILE", requires = "look")]
    axe: Option<PathBuf>,
}

/// Runs the benchmark.
///
/// # Errors
/// Without root, where a step fails, or a page is not as it should be.
pub fn run(me: &Path, wad: &Path, look: &Look) -> Result<Report> {
    let at = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    // Two more paths are as what people have: measured, and with a name of some length.
    let policy = format!(
        "[page]\nlisten = '{at}'\n[[path]]\nname = 'bench'\nremote = '10.200.0.1'\n\
         remote_port = 5002\ncongestion = 'wad_aimd'\nbandwidth = '1Gbit'\nrtt = '70ms'\n\
         sndbuf = 'auto'\nrcvbuf = 'auto'\n\
         [[path]]\nname = 'tokyo'\nremote = '203.0.113.0/24'\nmode = 'measured'\nsndbuf = 'auto'\n\
         [[path]]\nname = 'a site with a name of some length'\nremote = '2001:db8::/32'\n\
         mode = 'observe'\n"
    );
    let cgroup = Cgroup::create("bench")?;
    let namespaces: Vec<Netns> =
        (0..NAMESPACES).map(|_| Netns::create("bench")).collect::<Result<_, _>>()?;
    namespaces.iter().try_for_each(instruments::prepare)?;
    let mut results = Vec::new();
    for flows in FLOWS {
        let home = Home::create(wad, &policy)?;
        let agent = home.start(&cgroup)?;
        let holders = instruments::hold(me, &namespaces, &cgroup, flows)?;
        if let Some(folder) = &look.look {
            say(&format!("page: looking at pages of {flows} flows"));
            look::look(at, flows, folder, look.axe.as_deref())?;
        }
        if flows == FLOWS[FLOWS.len() - 1] {
            results = measure(at, agent.id(), flows)?;
            let slow = home.metrics()?.value("wad_page_refused_total", &["reason=\"slow\""])?;
            results.push(Outcome::new(
                format!("cut_off/{SLOW}"),
                "clients",
                // The rest has places until others want them.
                Target::AtLeast((SLOW - 100) as f64),
                vec![slow],
            ));
        }
        drop(holders);
        agent.stop()?;
    }
    Ok(Report { bench: "page", results })
}

fn measure(at: SocketAddr, agent: u32, flows: usize) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for (name, path) in PAGES {
        let mut seconds = Vec::new();
        let mut bytes = 0;
        for n in 0..=READS {
            let (took, text) = ask(at, path)?;
            bytes = text.len();
            // The first one loads the kernel side.
            if n > 0 {
                seconds.push(took);
            }
        }
        outcomes.push(Outcome::new(
            format!("page_seconds/{name}/{flows}"),
            "s",
            Target::AtMost(1.0),
            seconds,
        ));
        outcomes.push(Outcome::new(
            format!("page_bytes/{name}/{flows}"),
            "bytes",
            Target::AtMost(256e3),
            vec![bytes as f64],
        ));
    }
    let memory = proc::resident_bytes(agent)? as f64;
    outcomes.push(Outcome::new("rss_bytes", "bytes", Target::AtMost(100e6), vec![memory]));
    say(&format!("page: {SLOW} slow clients"));
    let mut slow = Vec::new();
    for n in 0..SLOW {
        let mut client = TcpStream::connect(at)?;
        // Silent, in the middle of a request, or without taking the answer.
        let words = [
            "",
            "GET /flows HTTP/1.1\r\nHost: loc",
            "GET /flows HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ];
        // Some have been cut off already.
        let _ = client.write_all(words[n % words.len()].as_bytes());
        slow.push(client);
    }
    let mut waits = Vec::new();
    for _ in 0..READS {
        let begun = Instant::now();
        ask(at, "/")?;
        waits.push(begun.elapsed().as_secs_f64());
    }
    let beside = proc::resident_bytes(agent)? as f64;
    outcomes.push(Outcome::new(format!("answer_seconds/{SLOW}"), "s", Target::AtMost(1.0), waits));
    outcomes.push(Outcome::new(
        format!("rss_bytes/{SLOW}"),
        "bytes",
        Target::AtMost(150e6),
        vec![beside],
    ));
    Ok(outcomes)
}

/// Returns the time that the agent says a page took, and the page.
fn ask(at: SocketAddr, path: &str) -> Result<(f64, String)> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("no answer")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no whole answer")?;
    ensure!(head.starts_with("HTTP/1.0 200"), "{path}: {head}");
    let took = head.lines().find_map(|line| line.strip_prefix("server-timing: page;dur="));
    let ms: f64 = took.context("no time of the page")?.parse()?;
    Ok((ms / 1e3, body.to_owned()))
}
