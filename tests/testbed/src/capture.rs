//! A capture shows what goes over a device, by tcpdump: times in seconds, lengths in
//! bytes.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    process::{Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{
    netns::Netns,
    process::{Place, Process, ProcessError},
    signal::{self, Interrupted},
    stand::{Late, until},
};

const LIMIT: Duration = Duration::from_secs(10);
/// tcpdump reads within this time all that has come, on a busy machine too.
const READING: Duration = Duration::from_millis(200);

/// Tells what went wrong with a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("tcpdump did not get all packets: {said}")]
    Incomplete { said: String },
    #[error("cannot keep what tcpdump writes")]
    File(#[from] io::Error),
}

/// One TCP segment, or several that the device got in one.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// The time since 1970.
    pub time_seconds: f64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// The flags, such as "S."; `.` is ACK.
    pub flags: String,
    /// The window as it is in the header: not scaled.
    pub window: u32,
    /// Option of a SYN.
    pub window_scale: Option<u8>,
    pub payload_bytes: u32,
}

/// A running tcpdump.
pub struct Capture {
    process: Process,
    folder: TempDir,
}

impl Capture {
    /// Captures, from the return of this on, the TCP packets that a filter
    /// (pcap-filter(7)) selects on a device.
    ///
    /// # Errors
    /// When tcpdump fails.
    pub fn start(netns: &Netns, device: &str, filter: &str) -> Result<Self, CaptureError> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new("tcpdump");
        // As root: it would give that up and lose access to its folder. Headers
        // only: room for whole packets is room for eight of them.
        command.args(["-i", device, "-Z", "root", "-s", "200", "-B", "8192"]);
        command.args(["-ttnl", "--immediate-mode", filter]);
        command.stdin(Stdio::null()).stdout(File::create(folder.path().join("packets"))?);
        command.stderr(File::create(folder.path().join("messages"))?);
        let process = Place { netns: Some(netns), cgroup: None }.spawn(command)?;
        let capture = Self { process, folder };
        let messages = || Ok::<_, CaptureError>(capture.read("messages")?);
        until("tcpdump listens", LIMIT, messages, |said| said.contains("listening on"))?;
        Ok(capture)
    }

    /// Ends the capture; returns what it has seen.
    ///
    /// # Errors
    /// When tcpdump fails.
    pub fn stop(mut self) -> Result<Vec<Packet>, CaptureError> {
        // It ends at once, and would leave what it has not read yet. Its counts tell nothing of
        // that: those of the kernel have packets from before there was a filter.
        signal::sleep(READING)?;
        self.process.signal(Signal::SIGINT);
        self.process.wait(LIMIT, || ())?;
        let said = self.read("messages")?;
        if !said.contains("\n0 packets dropped by kernel") {
            return Err(CaptureError::Incomplete { said });
        }
        Ok(parse(&self.read("packets")?))
    }

    fn read(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(self.folder.path().join(name))
    }
}

fn parse(text: &str) -> Vec<Packet> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Packet> {
    let (ends, rest) = line.split_once(": Flags [")?;
    let mut words = ends.split(' ');
    let time_seconds = words.next()?.parse().ok()?;
    let (_ip, from, _arrow, to) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let after = |name: &str| {
        let (_, value) = rest.split_once(name)?;
        value.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    Some(Packet {
        time_seconds,
        from: address(from)?,
        to: address(to)?,
        flags: rest.split_once(']')?.0.to_owned(),
        window: after("win ")?,
        window_scale: after("wscale ").and_then(|scale| scale.try_into().ok()),
        payload_bytes: after(", length ")?,
    })
}

/// Reads an address, whose port follows a last dot.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once('.')?;
    Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_of_tcpdump() {
        let text = "1763706000.250001 IP 10.77.0.2.8080 > 10.77.0.1.40716: Flags [S.], seq 5, \
            ack 6, win 65160, options [mss 1460,sackOK,TS val 1 ecr 2,nop,wscale 9], length 0\n\
            1763706000.310002 IP6 fd77::2.8080 > fd77::1.40716: Flags [P.], seq 1:1449, ack 1, \
            win 512, options [nop,nop,TS val 1 ecr 2], length 1448: HTTP: HTTP/1.1 200 OK\n\
            1763706000.400000 ARP, Request who-has 10.77.0.1 tell 10.77.0.2, length 28\n";
        let packets = parse(text);
        assert_eq!(packets.len(), 2);
        assert_eq!((packets[0].window_scale, packets[0].payload_bytes), (Some(9), 0));
        assert_eq!((packets[0].flags.as_str(), packets[0].window), ("S.", 65160));
        assert_eq!(packets[1].from, "[fd77::2]:8080".parse().unwrap());
        assert_eq!((packets[1].window_scale, packets[1].payload_bytes), (None, 1448));
    }
}
