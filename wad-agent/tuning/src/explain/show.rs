//! The answer for people.

use std::fmt::{self, Display};

use super::{
    answer::{Answer, Basis, PathAnswer, Settings, Verdict, Window},
    query::End,
};
use wad_toolbox::refusals::RefusedFlows;

/// Columns of a setting's key.
const KEY: usize = 22;

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remote = End { address: self.remote, port: self.remote_port };
        let from = match &self.from {
            Basis::PolicySet(number) => format!("policy set {number}, in force"),
            Basis::Configuration { file } => format!("{}, no agent asked", file.display()),
        };
        match &self.path {
            Some(PathAnswer { name, prefix, .. }) => {
                writeln!(f, "{remote} falls under path {name}, by {prefix} ({from})")?;
            }
            None if self.tried.is_empty() => writeln!(f, "{remote} falls under no path ({from})")?,
            None => writeln!(f, "{remote} falls under no path for sure ({from})")?,
        }
        for tried in &self.tried {
            let (word, conditions) = match &tried.verdict {
                Verdict::Taken => continue,
                Verdict::OnlyIf(conditions) => ("unless it has", conditions),
                Verdict::OnlyFor(conditions) => ("not as it is for", conditions),
            };
            let conditions = conditions.join(" and ");
            writeln!(f, "  path {}, by {}: {word} {conditions}", tried.path, tried.prefix)?;
        }
        match &self.path {
            Some(path) => {
                writeln!(f)?;
                write_settings(f, &path.settings)?;
                path.why.iter().try_for_each(|why| writeln!(f, "- {why}"))?;
                path.refused.iter().try_for_each(|RefusedFlows { refused, flows }| {
                    writeln!(f, "- the kernel has refused {refused} to {flows} of its flows")
                })
            }
            None => writeln!(f, "\nits flows are as without wad"),
        }
    }
}

fn write_settings(f: &mut fmt::Formatter<'_>, settings: &Settings) -> fmt::Result {
    let number = |number: Option<u32>, unit: &str| number.map(|number| format!("{number}{unit}"));
    let window = |size: Option<Window>| {
        size.map(|size| match size {
            Window::Segments(segments) => format!("{segments} segments"),
            Window::Bytes(bytes) => format!("{bytes} bytes"),
        })
    };
    let rows = [
        ("sndbuf", number(settings.sndbuf_bytes, " bytes")),
        ("rcvbuf", number(settings.rcvbuf_bytes, " bytes")),
        ("divide", settings.divide.then(|| "among the path's flows".to_owned())),
        ("congestion", settings.congestion.clone()),
        ("additive_increase", settings.additive_increase_segments.map(|a| a.to_string())),
        ("decrease", settings.decrease.map(|b| b.to_string())),
        ("initial_ssthresh", window(settings.initial_ssthresh)),
        ("max_cwnd", window(settings.max_cwnd)),
        ("max_ssthresh", number(settings.max_ssthresh_segments, " segments")),
        ("standing_queue", number(settings.standing_queue_segments, " segments")),
        (
            "dedicated",
            settings.dedicated_bytes_per_second.map(|rate| format!("{rate} bytes/s of payload")),
        ),
        ("initial_window", number(settings.initial_window_segments, " segments")),
        ("initial_receive_window", number(settings.initial_receive_window_segments, " segments")),
        ("pacing", number(settings.max_pacing_bytes_per_second, " bytes/s at most")),
        ("reorder", number(settings.reorder_segments, " segments")),
        ("delayed_ack", settings.delayed_ack.map(|delayed| delayed.to_string())),
        ("dscp", settings.dscp.map(|dscp| dscp.to_string())),
        ("max_flows", number(settings.max_flows, "")),
    ];
    let mut given = rows.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).peekable();
    if given.peek().is_none() {
        return writeln!(f, "it has no settings: flows are only counted");
    }
    given.try_for_each(|(key, value)| writeln!(f, "{key:KEY$}  {value}"))
}
