//! A status for people: binary units, milliseconds, the busiest facts first.

mod paths;
mod peers;
mod probes;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    io::{self, Write},
};

use wad_agent::{
    guards::GuardTold,
    status::{ExperimentStatus, PageStatus, Status, TraceStatus},
};
use wad_evidence::plan::Arm;
use wad_toolbox::amounts::Bytes;
use wad_tuning::readings::PathState;

use crate::guard::words;

pub fn write(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "wad {}, instance {}, process {}, up {}",
        status.version,
        status.instance,
        status.pid,
        Uptime(status.uptime_seconds)
    )?;
    let config = status.config.display();
    writeln!(out, "config   {config}, policy set {}", status.generation)?;
    if status.reloads.behind {
        writeln!(out, "         what the file says by now was not taken; the log says why")?;
    }
    writeln!(out, "cgroup   {}", status.cgroup.display())?;
    for fault in &status.detached {
        writeln!(out, "detached {fault}")?;
    }
    for lacking in &status.lacking {
        writeln!(out, "lacking  {lacking}")?;
    }
    for refused in &status.programs_refused {
        writeln!(out, "refused  {refused}")?;
    }
    let (held, limit) = (status.memory_held_bytes, status.memory_limit_bytes);
    writeln!(out, "memory   {} of {} held by TCP", Bytes(held), Bytes(limit))?;
    let disabled = status.paths.iter().filter(|path| path.state == PathState::Disabled).count();
    if status.all_disabled {
        writeln!(out, "disabled all paths; `wad enable` ends that")?;
    } else if disabled > 0 {
        writeln!(out, "disabled {disabled} of {} paths", status.paths.len())?;
    }
    for (count, what) in [
        (status.events_lost, "events lost"),
        (status.mptcp_subflows, "MPTCP subflows left alone"),
        (status.flows_without_storage, "flows left alone for want of socket storage"),
    ] {
        if count > 0 {
            writeln!(out, "counted  {count} {what}")?;
        }
    }
    for set in &status.sets {
        let (name, es) = (set.name.escape_debug(), if set.prefixes == 1 { "" } else { "es" });
        write!(out, "set      {name}: {} prefix{es}", set.prefixes)?;
        if let Some(age) = set.age_seconds {
            write!(out, ", read {} ago", Uptime(age))?;
        }
        match &set.failing {
            Some(why) => writeln!(out, "; {why}")?,
            None => writeln!(out)?,
        }
    }
    if let Some(pods) = &status.pods {
        let s = if pods.known == 1 { "" } else { "s" };
        write!(out, "pods     {} pod{s} known", pods.known)?;
        match pods.origin.as_deref() {
            Some("api_server") => write!(out, ", by the API server")?,
            Some(origin) => write!(out, ", by the {origin}")?,
            None => {}
        }
        match pods.flows_adopted {
            0 => writeln!(out)?,
            flows => writeln!(out, "; {flows} connections ran before theirs was, or its labels")?,
        }
        if let Some(why) = &pods.lacking {
            writeln!(out, "lacking  {why}")?;
        }
    }
    if let Some(probes) = &status.probes {
        probes::write(probes, out)?;
    }
    for experiment in &status.experiments {
        write_experiment(experiment, out)?;
    }
    write_guards(&status.guards, out)?;
    for sink in &status.sinks {
        let (name, behind) = (&sink.name, Bytes(sink.spooled_bytes));
        if let Some(why) = &sink.failing {
            writeln!(out, "behind   sink {name}: {behind} of events wait for it; {why}")?;
        }
        if sink.refused > 0 {
            let file = format_args!("{name}.refused.jsonl");
            writeln!(out, "counted  {} events that sink {name} refuses: {file}", sink.refused)?;
        }
        if sink.lost > 0 {
            writeln!(out, "counted  {} events that sink {name} never gets", sink.lost)?;
        }
    }
    for trace in &status.traces {
        let TraceStatus { name, file, lines, bytes, .. } = trace;
        let (file, bytes) = (file.display(), Bytes(*bytes));
        writeln!(out, "trace    {name}: {lines} lines, {bytes}, to {file}")?;
        if let Some(why) = &trace.failing {
            writeln!(out, "behind   trace {name}: {why}")?;
        }
        if trace.lost_lines > 0 {
            writeln!(out, "counted  {} lost lines of trace {name}", trace.lost_lines)?;
        }
    }
    if let Some(otlp) = &status.otlp {
        write!(out, "otlp     {} exports of metrics to {}", otlp.sent, otlp.url)?;
        match otlp.age_seconds {
            Some(age) => writeln!(out, ", the last {} ago", Uptime(age))?,
            None => writeln!(out)?,
        }
        if let Some(why) = &otlp.failing {
            writeln!(out, "behind   otlp: {why}")?;
        }
        for (count, what) in [
            (otlp.failed, "exports of metrics that were given up"),
            (otlp.rejected_points, "points that were left out of exports of metrics"),
        ] {
            if count > 0 {
                writeln!(out, "counted  {count} {what}")?;
            }
        }
    }
    if let Some(PageStatus { address, refused }) = &status.page {
        writeln!(out, "page     {address}")?;
        if *refused > 0 {
            writeln!(
                out,
                "counted  {refused} requests to the page that were refused, or too slow"
            )?;
        }
    }
    if let Some(peers) = &status.peers {
        peers::write(peers, out)?;
    }
    paths::write_refused(&status.paths, out)?;
    for change in &status.changes {
        match change.values() {
            Some((before, after)) => {
                writeln!(out, "changed  {change}: {before} before, {after} now")?;
            }
            None => writeln!(out, "changed  {change}")?,
        }
    }
    writeln!(out)?;
    paths::write(&status.paths, out)
}

fn write_experiment(experiment: &ExperimentStatus, out: &mut dyn Write) -> io::Result<()> {
    let ExperimentStatus { path, is_over, ends, arm, pairs, planned_pairs, .. } = experiment;
    write!(out, "compares {}: {pairs} of {planned_pairs} pairs of blocks", path.escape_debug())?;
    match experiment.blocks_thrown {
        0 => {}
        thrown => write!(out, ", {thrown} blocks do not count")?,
    }
    match experiment.verdict {
        Some(verdict) => write!(out, "; goodput: {verdict}")?,
        None => write!(out, "; no verdict yet")?,
    }
    match arm {
        _ if *is_over => writeln!(out, "; it is over"),
        Some(Arm::Default) => writeln!(out, "; new connections get the defaults, until {ends}"),
        Some(Arm::Tuned) => writeln!(out, "; new connections get the policy, until {ends}"),
        None => writeln!(out, "; it begins soon"),
    }
}

/// Tells of guards that do something, and how many there are.
fn write_guards(guards: &[GuardTold], out: &mut dyn Write) -> io::Result<()> {
    if guards.is_empty() {
        return Ok(());
    }
    let s = if guards.len() == 1 { "" } else { "s" };
    let dry = if guards.iter().any(|guard| guard.dry_run) { ", in a dry run" } else { "" };
    writeln!(out, "guards   {} path{s}{dry}", guards.len())?;
    for guard in guards.iter().filter(|guard| guard.is_away()) {
        write!(out, "guards   {}: {}", guard.path.escape_debug(), words::state(guard))?;
        match guard.tripped {
            Some(trip) => writeln!(out, "; at {:.0}, {}", trip.at, words::signal(&trip.harm))?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

struct Uptime(u64);

impl fmt::Display for Uptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, seconds) = (self.0 / 60, self.0 % 60);
        let (hours, days) = (minutes / 60, minutes / 60 / 24);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds} s"),
            (0, 0, minutes) => write!(f, "{minutes} min {seconds} s"),
            (0, hours, minutes) => write!(f, "{hours} h {} min", minutes % 60),
            (days, hours, _) => write!(f, "{days} d {} h", hours % 24),
        }
    }
}
