//! The kernel has a trace of TCP flows of its own, event by event: the states of
//! congestion control as they are entered, and the window at each packet that comes in.
//! Windows count segments.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

static COUNT: AtomicU32 = AtomicU32::new(0);

const USUAL_PLACE: &str = "/sys/kernel/tracing";
/// The buffer of each processor has room for a million events or so.
const BUFFER_KIB: &str = "65536";
const EVENTS: [&str; 2] = ["tcp_probe", "tcp_cong_state_set"];

/// This threshold is none, `TCP_INFINITE_SSTHRESH` (include/net/tcp.h). None is above
/// it.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Tells what went wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot mount tracefs")]
    Mount { source: io::Error },
    #[error("cannot trace: {path}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the trace has lost events: its buffer was too small")]
    Overrun,
}

/// Tells what happened to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet came in; the window and threshold before it counts.
    Packet { cwnd_segments: u32, ssthresh_segments: u32 },
    /// Congestion control is in this state from here on: `enum tcp_ca_state`.
    State(u8),
}

/// One event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    pub local_port: u16,
    pub what: What,
}

/// A running trace; gone when dropped.
#[derive(Debug)]
pub struct Trace {
    // Dropped in this order: the instance is in the file system.
    instance: Instance,
    _tracefs: Tracefs,
}

#[derive(Debug)]
struct Instance(PathBuf);

#[derive(Debug)]
enum Tracefs {
    Usual,
    Mounted(TempDir),
}

impl Trace {
    /// Traces, in all namespaces, flows to remote ports in a range.
    ///
    /// # Errors
    /// Without root, or where the kernel has no such events.
    pub fn start(remote_ports: std::ops::RangeInclusive<u16>) -> Result<Self, TraceError> {
        let tracefs = Tracefs::find()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wad-{}-{number}", process::id());
        let instance = Instance(tracefs.path().join("instances").join(name));
        fs::create_dir(&instance.0)
            .map_err(|source| TraceError::Io { path: instance.0.clone(), source })?;
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        let (least, most) = remote_ports.into_inner();
        for event in EVENTS {
            let filter = format!("dport >= {least} && dport <= {most}");
            instance.write(&format!("events/tcp/{event}/filter"), &filter)?;
            instance.write(&format!("events/tcp/{event}/enable"), "1")?;
        }
        Ok(Self { instance, _tracefs: tracefs })
    }

    /// Ends the trace; returns what it has seen, in order.
    ///
    /// # Errors
    /// When there was too much for its buffer.
    pub fn finish(self) -> Result<Vec<Event>, TraceError> {
        self.instance.write("tracing_on", "0")?;
        let text = self.instance.read("trace")?;
        // "# entries-in-buffer/entries-written: 5/5   #P:2"
        let whole = text.lines().find_map(|line| {
            let (kept, written) = line.split_once("entries-written:")?.1.split_once('/')?;
            Some(kept.trim() == written.split_whitespace().next()?)
        });
        if whole == Some(false) {
            return Err(TraceError::Overrun);
        }
        Ok(text.lines().filter_map(parse).collect())
    }
}

impl Instance {
    fn write(&self, name: &str, value: &str) -> Result<(), TraceError> {
        let path = self.0.join(name);
        fs::write(&path, value).map_err(|source| TraceError::Io { path, source })
    }

    fn read(&self, name: &str) -> Result<String, TraceError> {
        let path = self.0.join(name);
        fs::read_to_string(&path).map_err(|source| TraceError::Io { path, source })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Only this removes it: not the files in it one by one.
        if let Err(error) = fs::remove_dir(&self.0) {
            crate::say(&format!("trace {} stays behind: {error}", self.0.display()));
        }
    }
}

impl Tracefs {
    /// Finds where tracefs is mounted, or mounts it for as long as this is kept.
    fn find() -> Result<Self, TraceError> {
        if Path::new(USUAL_PLACE).join("instances").is_dir() {
            return Ok(Self::Usual);
        }
        let folder = tempfile::tempdir().map_err(|source| TraceError::Mount { source })?;
        mount(Some("wad"), folder.path(), Some("tracefs"), MsFlags::empty(), None::<&str>)
            .map_err(|errno| TraceError::Mount { source: errno.into() })?;
        Ok(Self::Mounted(folder))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Usual => Path::new(USUAL_PLACE),
            Self::Mounted(folder) => folder.path(),
        }
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if let Self::Mounted(folder) = self
            && let Err(error) = umount2(folder.path(), MntFlags::MNT_DETACH)
        {
            crate::say(&format!("tracefs stays mounted at {}: {error}", folder.path().display()));
        }
    }
}

/// Reads `NAME-PID [CPU] FLAGS SECONDS: EVENT: name=value...`
fn parse(line: &str) -> Option<Event> {
    let (head, rest) = line.split_once(": ")?;
    let (event, fields) = rest.split_once(": ")?;
    let (seconds, fraction) = head.split_whitespace().last()?.split_once('.')?;
    let micros = seconds.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?;
    let field = |name: &str| {
        fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    let (local_port, what) = match event {
        "tcp_probe" => {
            let port = field("src")?.rsplit_once(':')?.1;
            let cwnd_segments = field("snd_cwnd")?.parse().ok()?;
            let ssthresh_segments = field("ssthresh")?.parse().ok()?;
            (port, What::Packet { cwnd_segments, ssthresh_segments })
        }
        "tcp_cong_state_set" => (field("sport")?, What::State(field("cong_state")?.parse().ok()?)),
        _ => return None,
    };
    Some(Event { time_ns: micros * 1000, local_port: local_port.parse().ok()?, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_events() {
        let line = "          <idle>-0       [001] ..s2.  1234.567890: tcp_probe: family=AF_INET \
                    src=10.77.1.1:40716 dest=10.77.0.2:5001 mark=0x0 data_len=0 snd_nxt=0x1 \
                    snd_una=0x2 snd_cwnd=10 ssthresh=2147483647 snd_wnd=64240 srtt=80000 \
                    rcv_wnd=64240 sock_cookie=1 skbaddr=000000001 skaddr=000000002";
        let what = What::Packet { cwnd_segments: 10, ssthresh_segments: 2_147_483_647 };
        let event = Event { time_ns: 1_234_567_890_000, local_port: 40_716, what };
        assert_eq!(parse(line), Some(event));
        let line = "  wad-lab-7  [000] b.s3.  1.000001: tcp_cong_state_set: family=AF_INET \
                    sport=40716 dport=5001 saddr=10.77.1.1 daddr=10.77.0.2 saddrv6=::ffff:10.77.1.1 \
                    daddrv6=::ffff:10.77.0.2 cong_state=2";
        let event = Event { time_ns: 1_000_001_000, local_port: 40_716, what: What::State(2) };
        assert_eq!(parse(line), Some(event));
        assert_eq!(parse("# tracer: nop"), None);
    }
}
