//! A policy set comes into force whole: a connection gets all that it gets from
//! one set, also one that is being made at that moment. The witness is a path with
//! a round trip time, on which buffers are set with the first packet and the law
//! with the last of the handshake.

use std::{
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd as _,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{getsockopt, sockopt};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    mutex::{locked, unpoisoned},
    settings,
    stand::Stand,
    tcp::{self, at},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const RTT: &str = "rtt = '60ms'\nforward = { rate = '1Gbit', queue = { bdp = 1.0 } }\n";
/// So many connections are being made at a time.
const CLIENTS: usize = 12;
const SPAN: Duration = Duration::from_secs(8);
/// Two changes within one handshake leave a connection with what it got from the
/// first set, the rest as it was: not mixed, but not whole either.
const APART: Duration = Duration::from_millis(200);

/// Holds what a connection got, as the application itself sees it. Buffers in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Got {
    sndbuf: usize,
    rcvbuf: usize,
    max_pacing: u32,
    dscp: u32,
    congestion: String,
}

/// Holds what the two policies say.
#[derive(Clone, Copy)]
struct Said {
    sndbuf: usize,
    rcvbuf: usize,
    max_pacing: u32,
    dscp: u32,
    law: &'static str,
}

const OLD: Said =
    Said { sndbuf: 400_000, rcvbuf: 500_000, max_pacing: 10_000_000, dscp: 8, law: "wad_aimd" };
const NEW: Said =
    Said { sndbuf: 600_000, rcvbuf: 700_000, max_pacing: 20_000_000, dscp: 10, law: "wad_delay" };

impl Said {
    fn policy(self) -> String {
        let Self { sndbuf, rcvbuf, max_pacing, dscp, law } = self;
        format!(
            "[[path]]\nname = 'p'\nremote = '{}'\nsndbuf = '{sndbuf}'\nrcvbuf = '{rcvbuf}'\n\
             pacing = '{}kbit'\ndscp = {dscp}\ncongestion = '{law}'\n",
            ADDRESSES_V4[1],
            max_pacing / 125
        )
    }

    fn is(self, got: &Got) -> bool {
        // A flow that runs already is brought under the next set as soon as it may
        // be. If its buffer is to shrink, that ends at what its peer was offered.
        let has_shrunk = (2 * OLD.rcvbuf + 1..2 * NEW.rcvbuf).contains(&got.rcvbuf);
        got.sndbuf == 2 * self.sndbuf
            && (got.rcvbuf == 2 * self.rcvbuf || has_shrunk)
            && got.max_pacing == self.max_pacing
            && got.dscp == self.dscp
            && got.congestion.starts_with(self.law)
    }
}

impl Got {
    /// Reads all settings as they are at one moment: reads until nothing has changed in
    /// between.
    fn of(stream: &TcpStream) -> Result<Self> {
        let mut got = Self::read(stream)?;
        loop {
            let again = Self::read(stream)?;
            if again == got {
                return Ok(got);
            }
            got = again;
        }
    }

    fn read(stream: &TcpStream) -> Result<Self> {
        let congestion = getsockopt(stream, sockopt::TcpCongestion)?;
        let congestion = congestion.to_string_lossy().trim_end_matches('\0').to_owned();
        Ok(Self {
            sndbuf: getsockopt(stream, sockopt::SndBuf)?,
            rcvbuf: getsockopt(stream, sockopt::RcvBuf)?,
            max_pacing: number(stream, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)?,
            dscp: number(stream, libc::IPPROTO_IP, libc::IP_TOS)? >> 2,
            congestion,
        })
    }
}

fn number(stream: &TcpStream, level: i32, option: i32) -> Result<u32> {
    let mut value = 0_u32;
    let mut bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value has the length given.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut bytes)
    };
    ensure!(result == 0, "{}", std::io::Error::last_os_error());
    Ok(value)
}

#[derive(Default)]
struct Seen {
    old: usize,
    new: usize,
    mixed: Vec<Got>,
}

impl Seen {
    fn add(&mut self, got: Got) {
        if OLD.is(&got) {
            self.old += 1;
        } else if NEW.is(&got) {
            self.new += 1;
        } else {
            self.mixed.push(got);
        }
    }
}

/// Connects all the time, while `swap` changes the policy again and again.
fn watch(wan: &Wan, swap: impl Fn(Said) -> Result<()>) -> Result<Seen> {
    let to = at(ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wan.b(), to)?;
    let over = AtomicBool::new(false);
    let seen = Mutex::new(Seen::default());
    thread::scope(|scope| -> Result<()> {
        scope.spawn(|| accept(&listener, &over));
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| connect(wan, to, &over, &seen))).collect();
        let begun = Instant::now();
        let mut swaps = 0;
        let both = [NEW, OLD];
        let swapped = both.iter().cycle().try_for_each(|said| {
            if begun.elapsed() > SPAN {
                return Err(None);
            }
            swaps += 1;
            swap(*said).map_err(Some)?;
            // Longer than a handshake takes.
            thread::sleep(APART);
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        // Ends the one that accepts.
        drop(wan.b().run(|| TcpStream::connect(to)));
        for client in clients {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        match swapped {
            Err(Some(error)) => Err(error),
            _ => {
                println!("{swaps} changes");
                Ok(())
            }
        }
    })?;
    let seen = unpoisoned(seen.into_inner());
    println!("{} old, {} new, {} mixed", seen.old, seen.new, seen.mixed.len());
    Ok(seen)
}

fn accept(listener: &TcpListener, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        drop(listener.accept());
    }
}

fn connect(wan: &Wan, to: SocketAddr, over: &AtomicBool, seen: &Mutex<Seen>) -> Result<()> {
    wan.a().run(|| -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            let stream = TcpStream::connect(to).context("cannot connect")?;
            let got = Got::of(&stream)?;
            locked(seen).add(got);
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        Ok(())
    })?
}

#[e2e(long, few)]
fn no_connection_sees_an_old_and_a_new_parameter() -> Result<()> {
    let stand = Stand::set_up("swap")?;
    let wan = Wan::start(&toml::from_str(RTT)?)?;
    settings::apply(&wan)?;
    let home = Home::create(&program()?, &OLD.policy())?;
    let _agent = home.start(stand.cgroup())?;
    let seen = watch(&wan, |said| Ok(home.reload(&said.policy())?))?;
    ensure!(seen.mixed.is_empty(), "{:?}", &seen.mixed[..seen.mixed.len().min(5)]);
    ensure!(seen.old > 20 && seen.new > 20, "too few to tell");
    Ok(())
}

/// A change is made in two pieces here: buffers first, then the rest. The witness has
/// to notice.
#[e2e(long, few)]
fn a_change_in_pieces_would_be_noticed() -> Result<()> {
    let stand = Stand::set_up("pieces")?;
    let wan = Wan::start(&toml::from_str(RTT)?)?;
    settings::apply(&wan)?;
    let home = Home::create(&program()?, &OLD.policy())?;
    let _agent = home.start(stand.cgroup())?;
    let seen = watch(&wan, |said| {
        let before = if said.law == NEW.law { OLD } else { NEW };
        let piece = Said { sndbuf: said.sndbuf, rcvbuf: said.rcvbuf, ..before };
        home.reload(&piece.policy())?;
        Ok(home.reload(&said.policy())?)
    })?;
    ensure!(!seen.mixed.is_empty(), "a change in two pieces went unseen");
    Ok(())
}
