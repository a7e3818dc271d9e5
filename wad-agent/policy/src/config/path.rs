//! Reads one `[[path]]`: which flows, and what they get.

use std::collections::HashSet;

use ipnet::IpNet;
use wad_common::{
    control::Control,
    policy::{NAME_BYTES, RULES_PER_ADDRESS},
};

use super::{
    AutoTraits, Host, MeasuredPath, Origin, PathPolicy,
    aimd::{self, Streams},
    buffers, cgroup,
    congestion::{self, Choice},
    consent,
    cut::Most,
    dedicated, experiment,
    fault::{Fault, Problems, quoted},
    fields::{
        self,
        capacity::{BAND, MEASURED_BAND},
        flow::NEIGHBOURS,
        matched::MODE,
    },
    host_name, interface,
    line::Line,
    line_use, mark,
    overlap::Site,
    pacing, prefix, resume, resume_from,
    table::{self, Located, Table},
    thresholds, user,
};

pub const TABLE: &str = "path";

/// Reads a path, whose buffers are cut to `most`. One without a name is left out; one whose
/// match is in doubt is given no prefixes, so that no error follows from it.
pub fn read(
    table: &Table<'_>,
    host: &Host,
    most: Most,
    problems: &mut Problems,
) -> Option<(PathPolicy, Site)> {
    table.require("name", problems, "add name = \"bob\", or how it is to show in logs and metrics");
    if !table.has("remote_set") && !table.has("remote_name") {
        let help = "add remote = \"10.5.128.74\", or a prefix, or an array";
        table.require("remote", problems, help);
    }
    let name = table.read("name", problems, |value| parse_name(table::text(value)?));
    let mode = MODE.word(table, problems).map_or("static", |mode| mode.value);
    let is_measured = mode == "measured";
    let mut policy = PathPolicy::default();

    let before = problems.count();
    let remote = read_prefixes(table, "remote", problems);
    check_remote(&remote, problems);
    let remote_sets = read_sets(table, problems);
    let remote_names = host_name::read(table, problems);
    let local = read_local(table, problems);
    fields::read_match(table, problems, &mut policy);
    policy.user = user::read(table, host, problems);
    policy.cgroup = cgroup::read(table, problems);
    policy.mark = mark::read(table, problems);
    policy.interface = interface::read(table, problems);
    let match_in_doubt = problems.count() > before;

    let line = Line::read(table, is_measured, problems);
    let choice = congestion::read(table, host, &fields::congestion::LOSS, problems);
    let aimd::Given { aimd, streams, is_auto: aimd_is_auto } = aimd::read(table, &line, problems);
    let buffers = buffers::read(table, &line, streams, most, problems);
    let thresholds = thresholds::read(table, &line, problems);
    let dedicated = dedicated::read(table, &line, problems);
    let paced = pacing::read(table, &choice, (&line, is_measured), problems);
    let band = MEASURED_BAND.whole(table, problems).unwrap_or(BAND);
    check_band(table, is_measured, problems);
    // As one of ours behaves, if one is chosen.
    let ours = streams.filter(|_| choice.law().is_some());
    policy.initial_window_segments = ours.map(Streams::initial_window_segments);
    fields::read_settings(table, problems, &mut policy);
    user::check(table, &policy, problems);
    let traits = AutoTraits { loss: choice.auto_loss.is_some(), ..policy.origin.traits };
    let parameters = |choice: &Choice, read: Control| match choice.law() {
        Some(_) if table.has("dedicated") => dedicated,
        Some(_) => Control {
            aimd,
            initial_ssthresh: thresholds.initial_ssthresh,
            max_cwnd: thresholds.max_cwnd,
            pacing: paced.pacing as u32,
            ..read
        },
        None => Control::STANDARD,
    };
    let read = policy.control;
    let is_known = policy.resume == resume_from::Resume::Known;
    if let Some(at) = table.place("resume").filter(|_| is_known) {
        line.check_auto(table, "resume", at, problems);
    }
    let use_line = buffers.use_line || thresholds.use_line || aimd_is_auto || is_known;
    if is_measured {
        // What is wrong may have been meant so.
        let in_doubt = choice.in_doubt || table.has("reorder") && policy.reorder_segments.is_none();
        let use_flows = traits.any() || in_doubt;
        check_measured(table, use_line || paced.is_auto || use_flows, problems);
    } else {
        check_traits(table, traits, problems);
        if !use_line {
            line_use::check(table, &choice, problems);
        }
    }
    policy.observe = mode == "observe";
    policy.origin.capacity = line.capacity();
    policy.experiment = experiment::read(table, &policy, problems);
    let name = name?;
    let (remote_set, remote_name) = (table.place("remote_set"), table.place("remote_name"));
    let remote_at = table.place("remote").or(remote_set).or(remote_name).unwrap_or(table.at);
    let site = Site {
        name: name.at,
        remote: remote_at,
        remote_set: remote_set.or(remote_name).unwrap_or(remote_at),
        remote_name: remote_name.unwrap_or(remote_at),
        remote_port: table.place("remote_port").unwrap_or(remote_at),
        local_port: table.place("local_port").unwrap_or(remote_at),
        allow: table.place("allow").unwrap_or(remote_at),
        experiment: experiment::place(table).unwrap_or(remote_at),
        neighbours: table.place(NEIGHBOURS).unwrap_or(remote_at),
    };
    let policy = PathPolicy {
        name: name.value,
        remote: if match_in_doubt { Vec::new() } else { networks(&remote) },
        local: networks(&local),
        bdp_bytes: line.bdp_bytes().map(|bytes| bytes.round() as u64),
        sndbuf_bytes: buffers.sndbuf_bytes,
        rcvbuf_bytes: buffers.rcvbuf_bytes,
        autotune_bytes: buffers.autotune_bytes,
        congestion: choice.congestion.clone(),
        control: parameters(&choice, read),
        max_pacing_bytes_per_second: paced.max_bytes_per_second,
        origin: Origin {
            buffers: buffers.auto,
            cut: buffers.cut,
            traits,
            streams: streams.map_or(0, |Streams(k)| k),
            passed_over: choice.passed_over.clone(),
            remote_sets: if match_in_doubt { Vec::new() } else { remote_sets },
            remote_names: if match_in_doubt { Vec::new() } else { remote_names },
            ..policy.origin
        },
        measured: is_measured.then(|| MeasuredPath {
            fallback: line.capacity(),
            buffers: buffers.auto,
            windows: thresholds.auto,
            aimd_is_auto,
            pacing_is_auto: paced.is_auto,
            traits,
            streams: streams.map_or(1, |Streams(k)| k),
            band,
        }),
        ..policy
    };
    let others = choice.others.iter().map(|other| {
        let control = parameters(other, read);
        (other, PathPolicy { control, ..policy.clone() })
    });
    let others: Vec<_> = others.collect();
    consent::check(table, (&choice, &policy), &others, &remote, problems);
    resume::check(table, &policy, &remote, problems);
    Some((policy, site))
}

pub fn parse_name(name: &str) -> Result<String, Fault> {
    // The kernel side keeps a final zero.
    let most = NAME_BYTES - 1;
    if name.is_empty() || name.len() > most {
        let label = format!("must be 1 to {most} bytes");
        return Err(Fault::new(format!("{} bytes long", name.len()), label));
    }
    let is_printable = |c: char| c.escape_debug().len() == 1 || matches!(c, '"' | '\'' | '\\');
    if !name.chars().all(is_printable) {
        let title = format!("{} is not printable", quoted(name));
        return Err(Fault::new(title, "has a character that does not show"));
    }
    if name == "other" {
        let label = "metrics call the paths beyond `metrics.max_paths` so";
        return Err(Fault::new("\"other\" is taken", label).help("choose another name"));
    }
    Ok(name.to_owned())
}

/// Something has to follow from what is measured.
fn check_measured(table: &Table<'_>, use_line: bool, problems: &mut Problems) {
    let Some(at) = table.place("mode") else { return };
    if let Some(dedicated) = table.place("dedicated") {
        let title = "mode = \"measured\" has no effect with `dedicated`";
        let fault =
            Fault::new(title, "rate and window are fixed").help("leave one of the two out").idle();
        problems.push(fault.at(at).also(dedicated, "by this"));
    } else if !use_line {
        let fault = Fault::new("mode = \"measured\" has no effect", "nothing here follows from it")
            .help("add sndbuf = \"auto\" and rcvbuf = \"auto\", or leave it out");
        problems.push(fault.idle().at(at));
    }
}

/// Only a path that is measured has traits to follow.
fn check_traits(table: &Table<'_>, traits: AutoTraits, problems: &mut Problems) {
    let asked = [("reorder", traits.reorder), ("loss", traits.loss)];
    for (key, _) in asked.into_iter().filter(|(_, is_auto)| *is_auto) {
        let Some(at) = table.place(key) else { continue };
        let title = format!("`{key}`: \"auto\" needs mode = \"measured\"");
        let fault = Fault::new(title, "nothing is measured here");
        problems.push(fault.help("add mode = \"measured\", or say what it is").at(at));
    }
}

/// The band is around what the file says of a path that is measured.
fn check_band(table: &Table<'_>, is_measured: bool, problems: &mut Problems) {
    let Some(at) = table.place(MEASURED_BAND.key) else { return };
    let (label, help) = if !is_measured {
        ("nothing is measured here", "add mode = \"measured\", or leave it out")
    } else if !table.has("bandwidth") && !table.has("rtt") {
        ("around nothing", "add `bandwidth` or `rtt` of the path, or leave it out")
    } else {
        return;
    };
    let title = format!("`{}` has no effect", MEASURED_BAND.key);
    problems.push(Fault::new(title, label).help(help).idle().at(at));
}

fn read_prefixes(table: &Table<'_>, key: &str, problems: &mut Problems) -> Vec<Located<IpNet>> {
    let nets = table.read_list(key, problems, |value| prefix::parse(table::text(value)?));
    nets.unwrap_or_default()
}

/// Refuses what is no host's address: one that forgot the length means all.
fn check_remote(remote: &[Located<IpNet>], problems: &mut Problems) {
    for Located { value: net, at } in remote.iter().filter(|net| is_no_host(net.value)) {
        let title = format!("`remote`: `{}` is no host's address", net.addr());
        let fault = Fault::new(title, "no connection goes there");
        let help = format!("write \"{}/0\" for all addresses", net.addr());
        problems.push(fault.help(help).at(*at));
    }
}

/// Whether it is `0.0.0.0` or `::`, not a prefix that begins there.
fn is_no_host(net: IpNet) -> bool {
    net.addr().is_unspecified() && net.prefix_len() == net.max_prefix_len()
}

/// Reads the names of the sets that the path is for, each once.
fn read_sets(table: &Table<'_>, problems: &mut Problems) -> Vec<String> {
    let names = table.read_list("remote_set", problems, |value| parse_name(table::text(value)?));
    let mut seen = HashSet::new();
    let names = names.unwrap_or_default().into_iter().map(|name| name.value);
    names.filter(|name| seen.insert(name.clone())).collect()
}

fn read_local(table: &Table<'_>, problems: &mut Problems) -> Vec<Located<IpNet>> {
    let local = read_prefixes(table, "local", problems);
    // It is the papers' way to say any.
    if local.iter().any(|net| is_no_host(net.value)) {
        return Vec::new();
    }
    if let Some(beyond) = local.get(RULES_PER_ADDRESS) {
        let fault = Fault::new(
            format!("`local`: {} entries", local.len()),
            format!("at most {RULES_PER_ADDRESS} rules can apply to one remote address"),
        );
        problems.push(fault.help("use shorter prefixes").at(beyond.at));
    }
    local
}

/// Each once, in the order of the file.
fn networks(fields: &[Located<IpNet>]) -> Vec<IpNet> {
    let mut seen = HashSet::new();
    fields.iter().map(|net| net.value).filter(|&net| seen.insert(net)).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, testing::host};

    #[test]
    fn the_address_of_no_host_is_any_and_a_prefix_from_there_is_not() {
        let local = |local: &str| {
            let text = format!("[[path]]\nname = 'p'\nremote = '10.0.0.1'\nlocal = '{local}'\n");
            let path = Config::parse("wad.toml", &text, &host()).expect("valid").paths.remove(0);
            path.local.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for any in ["0.0.0.0", "::"] {
            assert!(local(any).is_empty(), "{any}");
        }
        for prefix in ["0.0.0.0/1", "::/1", "10.0.0.0/8"] {
            assert_eq!(local(prefix), [prefix]);
        }
    }
}
