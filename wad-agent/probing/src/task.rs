//! A valid task: what the schedule, the tools and rows have of one of the configuration.

use std::{net::IpAddr, sync::Arc, time::Duration};

use wad_policy::config::{Echoes, Family, Metric, ProbeTask, ProbeTool, Resource};
use wad_toolbox::clock::Moment;

use crate::{
    row::{Ending, Row},
    schedule::{Chance, Lock, Planned, There, Timing},
    tools::{Command, PScheduler, PathMtu, Ping, Rtt, Target, Tool, Transfer},
};

/// A task that can be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub config: ProbeTask,
    pub tool: Tool,
}

impl Task {
    pub fn new(config: ProbeTask) -> Self {
        Self { tool: tool(&config), config }
    }

    pub fn timing(&self) -> Timing {
        let ProbeTask { every, jitter, slip, timeout, .. } = self.config;
        Timing { every, jitter, slip, timeout }
    }

    /// Returns what the schedule knows of it.
    pub fn planned(&self, seed: Chance, now: Moment, since_1970: Duration) -> Planned {
        let (name, timing) = (Arc::from(&*self.config.name), self.timing());
        let first = timing.first(seed.of_text(&self.config.name), now, since_1970);
        let peer = self.config.peer.as_deref().map(Arc::from);
        let there = peer.map(|peer| There { peer, locks: self.config.locks });
        Planned { name, timing, first, locks: self.locks(), there }
    }

    /// Returns the locks that a run takes.
    pub fn locks(&self) -> Vec<Lock> {
        let lock = |resource| Lock::of(self.lock_name(resource), self.config.locks.get(resource));
        Resource::ALL.into_iter().filter_map(lock).collect()
    }

    /// Returns the name of the lock that it has of a resource.
    pub fn lock_name(&self, resource: Resource) -> String {
        let ProbeTask { path, host, interface, .. } = &self.config;
        let of = match resource {
            Resource::HostCpu => None,
            // Those that leave it to routes are taken to leave by the same one.
            Resource::Interface => interface.as_ref(),
            Resource::Path => Some(path.as_ref().unwrap_or(host)),
            Resource::Peer => Some(host),
        };
        of.map_or_else(|| resource.word().to_owned(), |of| format!("{resource}:{of}"))
    }

    /// Returns what it finds out that connections may show as well.
    pub const fn passive_metric(&self) -> Option<Metric> {
        match &self.tool {
            Tool::Rtt(_) | Tool::Ping(_) => Some(Metric::Rtt),
            Tool::Bandwidth(_) => Some(Metric::Bandwidth),
            Tool::Iperf3(iperf3) if iperf3.udp_bits_per_second.is_none() && !iperf3.is_reverse => {
                Some(Metric::Bandwidth)
            }
            // From another host, or what nobody knows.
            Tool::PathMtu(_) | Tool::Iperf3(_) | Tool::Command(_) | Tool::PScheduler(_) => None,
        }
    }

    pub fn target(&self, address: IpAddr, deadline: Duration) -> Target {
        let ProbeTask { host, interface, mark, max_bytes, .. } = &self.config;
        Target {
            host: host.clone(),
            address,
            interface: interface.clone(),
            mark: *mark,
            deadline,
            max_bytes: *max_bytes,
        }
    }

    /// Whether the host may have this address for the task.
    pub fn takes(&self, address: IpAddr) -> bool {
        self.config.family.is_none_or(|family| (family == Family::Ipv6) == address.is_ipv6())
    }

    /// Returns the row of a period that did not run.
    pub fn row(&self, period: jiff::Timestamp, ending: Ending) -> Row {
        let ProbeTask { name, path, host, tool, .. } = &self.config;
        Row {
            task: name.clone(),
            path: path.clone(),
            host: host.clone(),
            address: None,
            tool: tool.word().to_owned(),
            period,
            started: None,
            took: Duration::ZERO,
            ending,
        }
    }
}

fn tool(task: &ProbeTask) -> Tool {
    let wait = task.wait;
    match &task.tool {
        ProbeTool::Rtt { echo, echoes: Echoes { count, interval, payload_bytes } } => {
            let (count, interval, payload_bytes) = (*count, *interval, *payload_bytes);
            Tool::Rtt(Rtt { by: *echo, count, interval, payload_bytes, wait })
        }
        ProbeTool::Ping { echoes: Echoes { count, interval, payload_bytes } } => {
            let (count, interval, payload_bytes) = (*count, *interval, *payload_bytes);
            Tool::Ping(Ping { count, interval, payload_bytes, wait })
        }
        ProbeTool::PathMtu { echo, most_bytes } => {
            Tool::PathMtu(PathMtu { by: *echo, most_bytes: *most_bytes, wait })
        }
        ProbeTool::Bandwidth { port } => {
            Tool::Bandwidth(Transfer { port: *port, time: task.timeout.mul_f64(TRANSFER_SHARE) })
        }
        ProbeTool::Iperf3(settings) => Tool::Iperf3(settings.clone()),
        ProbeTool::Command { program, arguments, memory_bytes } => Tool::Command(Command {
            program: program.clone(),
            arguments: arguments.clone(),
            memory_bytes: *memory_bytes,
        }),
        ProbeTool::PScheduler { url, access, test } => Tool::PScheduler(Box::new(PScheduler {
            url: url.clone(),
            access: (**access).clone(),
            test: *test,
        })),
    }
}

/// A transfer that is at its time's end leaves some of the time-out for its beginning and its
/// last answer.
const TRANSFER_SHARE: f64 = 0.8;

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, Host};

    use super::*;

    fn task(tool: &str, more: &str) -> Result<Task, String> {
        let text = format!(
            "[[probe.task]]\nname = 'a'\nhost = '2001:db8::1'\nevery = '1h'\ntool = '{tool}'\n{more}\n"
        );
        let config = Config::parse("wad.toml", &text, &Host::default());
        let config = config.map_err(|error| error.to_string())?;
        Ok(Task::new(config.probe.unwrap().tasks.remove(0)))
    }

    /// Where the file leaves `max_bytes` out, no tool is refused for what it takes; and what
    /// the file would take as too few is not so many that runs are refused after all.
    #[test]
    fn the_bytes_that_tools_have_by_default_are_enough_for_them() {
        let echoes = ["", "count = 1", "count = 10000\ninterval = '10ms'", "size = '8900B'"];
        let by = |echo| format!("echo = '{echo}'");
        let mut tasks: Vec<_> = echoes.iter().map(|more| ("ping", (*more).to_owned())).collect();
        for echo in ["icmp", "udp", "tcp"] {
            tasks.extend(echoes.map(|more| ("rtt", format!("{}\n{more}", by(echo)))));
        }
        for echo in ["icmp", "udp"] {
            let packets = ["max_packet = '1280B'", "max_packet = '65535B'", ""];
            tasks.extend(packets.map(|more| ("path-mtu", format!("{}\n{more}", by(echo)))));
        }
        for (tool, more) in tasks {
            let it = task(tool, &more).unwrap_or_else(|error| panic!("{tool} {more}: {error}"));
            let target = it.target(it.config.host.parse().unwrap(), it.config.timeout);
            let (most, max_bytes) = (it.tool.most_bytes(&target), it.config.max_bytes);
            assert!(most > 0 && most <= max_bytes, "{tool} {more}: {most} of {max_bytes}");
            let least = it.config.tool.least_bytes(None);
            assert!(most <= least, "{tool} {more}: {most}, and the file takes {least}");
        }
    }
}
