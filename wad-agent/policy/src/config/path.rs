//! One `[[path]]`: which flows, and what they get.

use std::{collections::HashSet, ops::RangeInclusive};

use ipnet::IpNet;
use toml::de::DeValue;
use wad_common::{
    control::Control,
    policy::{NAME_BYTES, RULES_PER_ADDRESS},
};

use super::{
    Congestion, Host, MeasuredPath, Origin, PathPolicy,
    aimd::{self, HANDSHAKE_SEGMENTS, Streams},
    buffers, congestion, consent, control, dscp,
    fault::{Fault, Problems, quoted},
    line::{self, Line},
    overlap::Site,
    pacing, prefix,
    table::{self, Field, Key, Table, aliased, key},
    thresholds,
};
use crate::route_rules::MAX_REORDER_SEGMENTS;

pub const TABLE: &str = "path";

/// The aliases are the names of the Net100 papers.
pub const KEYS: &[Key] = &[
    key("name"),
    aliased("remote", "dst_addr"),
    aliased("local", "src_addr"),
    aliased("remote_port", "dst_port"),
    aliased("local_port", "src_port"),
    key("mode"),
    key("bandwidth"),
    key("rtt"),
    key("sndbuf"),
    key("rcvbuf"),
    key("buffers"),
    key("divide"),
    key("override_setsockopt"),
    key("congestion"),
    key("loss"),
    key("dedicated"),
    aliased("additive_increase", "wadai"),
    aliased("decrease", "wadmd"),
    key("equivalent_streams"),
    key("initial_ssthresh"),
    aliased("max_ssthresh", "maxssth"),
    key("max_cwnd"),
    key("standing_queue"),
    key("idle"),
    key("ignore_local_stalls"),
    key("pacing"),
    key("initial_window"),
    key("initial_receive_window"),
    key("reorder"),
    aliased("delayed_ack", "delack"),
    key("dscp"),
    key("max_flows"),
    key("allow"),
];

/// A first flight of 1.4 MB. The handshake bounds it further where this host
/// connects: see [`HANDSHAKE_SEGMENTS`].
const INITIAL_WINDOW_SEGMENTS: RangeInclusive<u64> = 1..=1_000;
/// More would not fit into the handshake's window.
const INITIAL_RECEIVE_WINDOW_SEGMENTS: RangeInclusive<u64> = 1..=HANDSHAKE_SEGMENTS as u64;
/// From what TCP begins with (RFC 5681) to what `net.ipv4.tcp_max_reordering` lets it
/// learn.
const REORDER_SEGMENTS: RangeInclusive<u64> = 3..=MAX_REORDER_SEGMENTS as u64;

/// Reads a path. One without a name is left out; one whose match is in doubt is
/// given no prefixes, so that no error follows from it.
pub fn read(table: &Table<'_>, host: &Host, problems: &mut Problems) -> Option<(PathPolicy, Site)> {
    table.require("name", problems, "add name = \"bob\", or how it is to show in logs and metrics");
    table.require("remote", problems, "add remote = \"10.5.128.74\", or a prefix, or an array");
    let name = table.read("name", problems, |value| parse_name(table::text(value)?));
    let mode = read_mode(table, problems);
    let is_measured = mode == Mode::Measured;

    let before = problems.count();
    let remote = read_prefixes(table, "remote", problems);
    let local = read_local(table, problems);
    let remote_port = read_port(table, "remote_port", problems);
    let local_port = read_port(table, "local_port", problems);
    let match_in_doubt = problems.count() > before;

    let line = Line::read(table, is_measured, problems);
    let choice = congestion::read(table, host, problems);
    let aimd::Given { aimd, streams, is_auto: aimd_is_auto } = aimd::read(table, &line, problems);
    let buffers = buffers::read(table, &line, streams, problems);
    let thresholds = thresholds::read(table, &line, problems);
    let control = control::read(table, &thresholds, problems);
    let dedicated = control::dedicated(table, &line, problems);
    let paced = pacing::read(table, &choice, problems);
    let use_line = buffers.use_line || thresholds.use_line || aimd_is_auto;
    if is_measured {
        check_measured(table, use_line, problems);
    } else if !use_line {
        line::check_use(table, &choice, problems);
    }
    let measured = is_measured.then(|| MeasuredPath {
        fallback: line.capacity(),
        buffers: buffers.auto,
        windows: thresholds.auto,
        aimd_is_auto,
        streams: streams.map_or(1, |Streams(k)| k),
    });
    let control = match choice.congestion {
        Some(Congestion::Ours(_)) if table.has("dedicated") => dedicated,
        Some(Congestion::Ours(_)) => Control { aimd, pacing: paced.pacing as u32, ..control },
        _ => Control::STANDARD,
    };
    let initial_window_segments =
        read_segments(table, "initial_window", INITIAL_WINDOW_SEGMENTS, problems)
            .or_else(|| streams.map(Streams::initial_window_segments));
    let initial_receive_window_segments =
        read_segments(table, "initial_receive_window", INITIAL_RECEIVE_WINDOW_SEGMENTS, problems);
    let divide = read_divide(table, problems);
    let reorder_segments = read_segments(table, "reorder", REORDER_SEGMENTS, problems);
    let overrides = table.read("override_setsockopt", problems, table::boolean);
    let delayed_ack = table.read("delayed_ack", problems, parse_switch);
    let dscp = table.read("dscp", problems, dscp::parse).map(|dscp| dscp.value);
    let allow_aggressive = consent::read(table, problems);
    let max_flows = read_max_flows(table, problems);

    let name = name?;
    let site = Site { name: name.at, remote: table.place("remote").unwrap_or(table.at) };
    let policy = PathPolicy {
        name: name.value,
        remote: if match_in_doubt { Vec::new() } else { networks(&remote) },
        local: networks(&local),
        remote_port,
        local_port,
        bdp_bytes: line.bdp_bytes().map(|bytes| bytes.round() as u64),
        sndbuf_bytes: buffers.sndbuf_bytes,
        rcvbuf_bytes: buffers.rcvbuf_bytes,
        divide,
        autotune_bytes: buffers.autotune_bytes,
        congestion: choice.congestion.clone(),
        control,
        initial_window_segments,
        initial_receive_window_segments,
        max_pacing_bytes_per_second: paced.max_bytes_per_second,
        no_delayed_acks: delayed_ack.is_some_and(|delayed| !delayed.value),
        reorder_segments,
        override_setsockopt: overrides.is_some_and(|overrides| overrides.value),
        dscp,
        max_flows,
        allow_aggressive,
        observe: mode == Mode::Observe,
        origin: Origin {
            capacity: line.capacity(),
            buffers: buffers.auto,
            streams: streams.map_or(0, |Streams(k)| k),
            reorder_segments: reorder_segments.unwrap_or(0),
        },
        measured,
    };
    consent::check(table, &choice, &policy, &remote, problems);
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Static,
    Measured,
    Observe,
}

fn read_mode(table: &Table<'_>, problems: &mut Problems) -> Mode {
    let mode = table.read("mode", problems, |value| match table::text(value)? {
        "static" => Ok(Mode::Static),
        "measured" => Ok(Mode::Measured),
        "observe" => Ok(Mode::Observe),
        other => {
            let label = "it takes \"static\", \"measured\" or \"observe\"";
            Err(Fault::new(format!("{} is no mode", quoted(other)), label))
        }
    });
    mode.map_or(Mode::Static, |mode| mode.value)
}

/// Something has to follow from what is measured.
fn check_measured(table: &Table<'_>, use_line: bool, problems: &mut Problems) {
    let Some(at) = table.place("mode") else { return };
    if let Some(dedicated) = table.place("dedicated") {
        let title = "mode = \"measured\" has no effect with `dedicated`";
        let fault = Fault::new(title, "rate and window are fixed").help("leave one of the two out");
        problems.push(fault.at(at).also(dedicated, "by this"));
    } else if !use_line {
        let fault = Fault::new("mode = \"measured\" has no effect", "nothing here follows from it")
            .help("add sndbuf = \"auto\" and rcvbuf = \"auto\", or leave it out");
        problems.push(fault.at(at));
    }
}

fn read_prefixes(table: &Table<'_>, key: &str, problems: &mut Problems) -> Vec<Field<IpNet>> {
    let nets = table.read_list(key, problems, |value| prefix::parse(table::text(value)?));
    nets.unwrap_or_default()
}

fn read_local(table: &Table<'_>, problems: &mut Problems) -> Vec<Field<IpNet>> {
    let local = read_prefixes(table, "local", problems);
    // 0.0.0.0 is the papers' way to say any; no flow has it.
    let is_any = |net: IpNet| net.addr().is_unspecified() && net.prefix_len() > 0;
    if local.iter().any(|net| is_any(net.value)) {
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
fn networks(fields: &[Field<IpNet>]) -> Vec<IpNet> {
    let mut seen = HashSet::new();
    fields.iter().map(|net| net.value).filter(|&net| seen.insert(net)).collect()
}

fn read_port(table: &Table<'_>, key: &str, problems: &mut Problems) -> u16 {
    let port = table
        .read(key, problems, |value| table::integer(value, 0..=u16::MAX.into(), "(0 for any)"));
    // In range, hence whole.
    port.map_or(0, |port| port.value as u16)
}

fn read_segments(
    table: &Table<'_>,
    key: &str,
    range: RangeInclusive<u64>,
    problems: &mut Problems,
) -> Option<u32> {
    let parse = |value: &DeValue<'_>| table::integer(value, range, "segments");
    // In range, hence whole.
    table.read(key, problems, parse).map(|segments| segments.value as u32)
}

fn read_divide(table: &Table<'_>, problems: &mut Problems) -> bool {
    let Some(divide) = table.read("divide", problems, parse_switch) else { return false };
    if divide.value && !table.has("sndbuf") && !table.has("rcvbuf") {
        let fault = Fault::new("divide = true has no effect", "there is no buffer to divide")
            .help("add `sndbuf` and `rcvbuf`, for all flows together, or leave it out");
        problems.push(fault.at(divide.at));
    }
    divide.value
}

/// The papers have 0 and 1.
fn parse_switch(value: &DeValue<'_>) -> Result<bool, Fault> {
    match value {
        DeValue::Integer(_) => Ok(table::integer(value, 0..=1, "")? == 1),
        _ => table::boolean(value),
    }
}

fn read_max_flows(table: &Table<'_>, problems: &mut Problems) -> Option<u32> {
    let parse = |value: &DeValue<'_>| table::integer(value, 1..=u32::MAX.into(), "flows");
    // In range, hence whole.
    table.read("max_flows", problems, parse).map(|flows| flows.value as u32)
}
