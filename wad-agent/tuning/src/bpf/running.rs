//! Flows that run already: found by an iterator over the sockets of each network
//! namespace, brought under the policy that is in force, and let go where none is.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _},
    ops::ControlFlow,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use aya::maps::MapData;
use aya_obj::generated::{bpf_attach_type, bpf_prog_type};
use tracing::{info, warn};
use wad_common::{flow::Visit, instruments::Members, sock::SockOffsets};
use wad_linux::{
    netns::{self, Skipped, Which},
    sockstat,
};
use wad_struct_ops::{self as struct_ops, BtfError, KernelBtf, LinkedObject, StructOpsError, sys};

use super::{Pins, Result, TuningError, maps, objects, offsets, scan};

/// How often a namespace is gone through at most: before Linux 6.17 a pass may
/// miss sockets if others come and go meanwhile.
const PASSES: usize = 8;

/// The option that has a running flow's end reported (Linux 6.12).
const FLAGS_OPTION: &str = "TCP_BPF_SOCK_OPS_CB_FLAGS";

/// The iterator, ready to be run.
pub struct Running {
    link: OwnedFd,
}

/// Says what a pass over flows that run has come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct BroughtAlong {
    /// Network namespaces that it has left out.
    pub skipped: Skipped,
    /// Flows that came under a path, or under another one.
    pub adopted: usize,
}

/// Says what came of going through all namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    adopted: usize,
    changed: usize,
    left: usize,
    divided: usize,
}

impl Passed {
    fn of(output: &[u8]) -> Self {
        let count = |visit: Visit| output.iter().filter(|byte| **byte == visit as u8).count();
        Self {
            adopted: count(Visit::Adopted),
            changed: count(Visit::Changed),
            left: count(Visit::Left),
            divided: count(Visit::Divided),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            adopted: self.adopted + other.adopted,
            changed: self.changed + other.changed,
            left: self.left + other.left,
            divided: self.divided + other.divided,
        }
    }

    /// Whether another pass at once could do no more.
    const fn is_done(self) -> bool {
        self.adopted + self.changed + self.left + self.divided == 0
    }
}

impl Running {
    /// Loads the iterator. None, with a warning, where the kernel refuses it: tuning
    /// then is for new flows only.
    pub fn load(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Option<Self> {
        match try_load(pins, btf, cgroup_id) {
            Ok(running) => Some(running),
            Err(error) => {
                warn!(
                    "flows that run already stay as they are, now and when the policy changes: \
                     {:#}",
                    anyhow::Error::from(error)
                );
                None
            }
        }
    }

    /// Goes through these network namespaces until nothing is left to be done, or it is to
    /// stop.
    pub fn bring_along(&self, which: Which<'_>, stop: &AtomicBool) -> Result<BroughtAlong> {
        let mut outcome = Passed::default();
        let mut result = Ok(());
        let visit = || {
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            and_go_on(self.until_done().map(|done| outcome = outcome.and(done)), &mut result)
        };
        let skipped = netns::in_each(which, visit).map_err(TuningError::Namespaces)?;
        result.map_err(TuningError::Running)?;
        if skipped.closed > 0 {
            warn!(
                namespaces = skipped.closed,
                "flows that run in other network namespaces stay as they are: to enter them takes \
                 CAP_SYS_ADMIN"
            );
        }
        let Passed { adopted, changed, left, .. } = outcome;
        if adopted + changed + left > 0 {
            info!(adopted, changed, left, "running flows follow the policy");
        }
        Ok(BroughtAlong { skipped, adopted })
    }

    fn until_done(&self) -> io::Result<Passed> {
        let mut outcome = Passed::default();
        for _ in 0..PASSES {
            let done = self.pass()?;
            outcome = outcome.and(done);
            if done.is_done() {
                break;
            }
        }
        Ok(outcome)
    }

    /// Makes one run in the calling thread's namespace.
    fn pass(&self) -> io::Result<Passed> {
        let mut output = Vec::new();
        read_sockets(self.link.as_fd(), &mut output)?;
        Ok(Passed::of(&output))
    }
}

/// Goes on with the next namespace, or breaks off and keeps the error.
pub fn and_go_on<T>(done: io::Result<T>, result: &mut io::Result<()>) -> ControlFlow<()> {
    match done {
        Ok(_) => ControlFlow::Continue(()),
        Err(error) => {
            *result = Err(error);
            ControlFlow::Break(())
        }
    }
}

/// Returns what an iterator has to say: a run of it.
pub fn read(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    read_to(link, &mut output)?;
    Ok(output)
}

/// Reads what an iterator over the sockets of the calling thread's network namespace has to
/// say, behind what is there: without a walk where it has none, as most of thousands.
pub fn read_sockets(link: BorrowedFd<'_>, output: &mut Vec<u8>) -> io::Result<()> {
    if sockstat::has_tcp() { read_to(link, output) } else { Ok(()) }
}

/// Reads what an iterator has to say, behind what is there.
pub fn read_to(link: BorrowedFd<'_>, output: &mut Vec<u8>) -> io::Result<()> {
    let mut file = File::from(sys::create_iterator(link)?);
    loop {
        match file.read_to_end(output) {
            Ok(_) => return Ok(()),
            // After a million sockets with nothing to say (`bpf_seq_read()`).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// The kind of iterator over the sockets of a network namespace.
const OF_SOCKETS: &str = "bpf_iter_tcp";

fn try_load(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Result<Running> {
    // The object's programs refer to the maps by number until they are loaded.
    let maps = maps::open_all(pins)?;
    let object = link_object(&maps, &[], btf, (cgroup_id, &Members::NONE))?;
    let program = load_iterator(&object, btf, ("wad_running", OF_SOCKETS))?;
    let link = sys::link_iterator(program.as_fd()).map_err(TuningError::Running)?;
    if !btf.has_name(FLAGS_OPTION) && !pins.ends_link().exists() {
        watch_ends(pins, btf, &object)?;
    }
    Ok(Running { link })
}

/// Loads an iterator over the sockets of a network namespace, by its name, which reads so
/// much of each.
pub fn link_sockets(
    pins: &Pins,
    btf: &KernelBtf,
    cgroup_id: u64,
    (name, members): (&'static str, &Members),
) -> Result<OwnedFd> {
    link_alone(pins, btf, (cgroup_id, members), (name, OF_SOCKETS))
}

/// Loads an iterator of this kind, and no other of its object.
pub fn link_alone(
    pins: &Pins,
    btf: &KernelBtf,
    linked: (u64, &Members),
    iterator: (&'static str, &str),
) -> Result<OwnedFd> {
    let program = load_alone(pins, btf, linked, iterator)?;
    sys::link_iterator(program.as_fd()).map_err(TuningError::Running)
}

/// Has the end of flows that ran already seen by a tracing program, pinned beside
/// the tuner.
fn watch_ends(pins: &Pins, btf: &KernelBtf, object: &LinkedObject) -> Result<()> {
    let program = struct_ops::load(&sys::ProgramLoad {
        name: "wad_ended",
        instructions: object.instructions("wad_ended").map_err(StructOpsError::from)?,
        program_type: bpf_prog_type::BPF_PROG_TYPE_TRACING,
        attach_type_id: btf.typedef_id("btf_trace_inet_sock_set_state")?,
        attach_type: bpf_attach_type::BPF_TRACE_RAW_TP as u32,
    })?;
    sys::link_raw_tracepoint(program.as_fd())
        .and_then(|link| sys::pin(&link, &pins.ends_link()))
        .map_err(TuningError::Running)
}

/// Loads the program of an iterator of this kind, which finds no path, and no other of its
/// object. What is loaded holds its maps by itself: their descriptors, which may be the last,
/// are free by then.
fn load_alone(
    pins: &Pins,
    btf: &KernelBtf,
    (cgroup_id, members): (u64, &Members),
    iterator: (&'static str, &str),
) -> Result<OwnedFd> {
    let maps = maps::open_but_matching(pins)?;
    load_iterator(&link_object(&maps, &[], btf, (cgroup_id, members))?, btf, iterator)
}

/// Loads the program of an iterator of this kind.
fn load_iterator(
    object: &LinkedObject,
    btf: &KernelBtf,
    (name, kind): (&'static str, &str),
) -> Result<OwnedFd> {
    Ok(struct_ops::load(&sys::ProgramLoad {
        name,
        instructions: object.instructions(name).map_err(StructOpsError::from)?,
        program_type: bpf_prog_type::BPF_PROG_TYPE_TRACING,
        attach_type_id: btf.function_id(kind)?,
        attach_type: bpf_attach_type::BPF_TRACE_ITER as u32,
    })?)
}

/// Links the tuner's object against the pinned maps and others, for the flows of a cgroup and
/// these members of `struct tcp_sock`.
pub fn link_object(
    maps: &[(&'static str, MapData)],
    others: &[(&'static str, BorrowedFd<'_>)],
    btf: &KernelBtf,
    (cgroup_id, members): (u64, &Members),
) -> Result<LinkedObject> {
    let sock = sock_offsets(btf)?;
    let (choices, defaults, task) =
        (offsets::choices(btf)?, offsets::defaults(btf)?, offsets::task(btf)?);
    let has_flags_option = u8::from(btf.has_name(FLAGS_OPTION));
    let tcp_sock_type = scan::tcp_sock_type(btf)?;
    let globals = HashMap::from([
        ("SOCK", (maps::bytes(&sock), true)),
        ("CGROUP", (maps::bytes(&cgroup_id), true)),
        ("MEMBERS", (maps::bytes(members), true)),
        ("CHOICES", (maps::bytes(&choices), true)),
        ("DEFAULTS", (maps::bytes(&defaults), true)),
        ("HAS_FLAGS_OPTION", (maps::bytes(&has_flags_option), true)),
        ("TASK", (maps::bytes(&task), true)),
        ("TCP_SOCK_TYPE", (maps::bytes(&tcp_sock_type), true)),
    ]);
    let pinned = maps.iter().map(|(name, map)| (*name, map.fd().as_fd()));
    let fds: HashMap<&str, BorrowedFd<'_>> = pinned.chain(others.iter().copied()).collect();
    Ok(LinkedObject::link(objects::tuner(), globals, &fds).map_err(StructOpsError::from)?)
}

pub(super) fn sock_offsets(btf: &KernelBtf) -> Result<SockOffsets, BtfError> {
    let tcp = |member| btf.offset_bytes("tcp_sock", member);
    let sock =
        |member: &str| btf.offset_bytes("tcp_sock", &format!("inet_conn.icsk_inet.sk.{member}"));
    let common = |member: &str| sock(&format!("__sk_common.{member}"));
    // Not every kernel has IPv6, or multipath TCP.
    let or_none = |offset: Result<u32, BtfError>| offset.unwrap_or(0);
    let chrono_type_bits = btf.offset_bits("tcp_sock", "chrono_type")?;
    Ok(SockOffsets {
        state: common("skc_state")?,
        cookie: common("skc_cookie")?,
        file: sock("sk_socket")?,
        family: common("skc_family")?,
        remote_v4: common("skc_daddr")?,
        local_v4: common("skc_rcv_saddr")?,
        remote_v6: or_none(common("skc_v6_daddr")),
        local_v6: or_none(common("skc_v6_rcv_saddr")),
        remote_port: common("skc_dport")?,
        local_port: common("skc_num")?,
        net: common("skc_net.net")?,
        cgroup: sock("sk_cgrp_data.cgroup")?,
        user: sock("sk_uid")?,
        mark: sock("sk_mark")?,
        route: sock("sk_dst_cache")?,
        rmem_alloc: sock("sk_backlog.rmem_alloc")?,
        wmem_queued: sock("sk_wmem_queued")?,
        sndbuf: sock("sk_sndbuf")?,
        rcvbuf: sock("sk_rcvbuf")?,
        rcvq_space: tcp("rcvq_space.space")?,
        rcv_rtt: tcp("rcv_rtt_est.rtt_us")?,
        out_of_order: tcp("out_of_order_queue")?,
        max_pacing_rate: sock("sk_max_pacing_rate")?,
        user_timeout: tcp("inet_conn.icsk_user_timeout")?,
        bytes_acked: tcp("bytes_acked")?,
        bytes_received: tcp("bytes_received")?,
        data_segs_out: tcp("data_segs_out")?,
        packets_out: tcp("packets_out")?,
        total_retrans: tcp("total_retrans")?,
        srtt_us: tcp("srtt_us")?,
        rtt_min: tcp("rtt_min")? + btf.offset_bytes("minmax_sample", "v")?,
        rate_delivered: tcp("rate_delivered")?,
        rate_interval_us: tcp("rate_interval_us")?,
        app_limited: tcp("app_limited")?,
        chrono_type: chrono_type_bits / 8,
        chrono_type_shift: chrono_type_bits % 8,
        chrono_start: tcp("chrono_start")?,
        chrono_stat: tcp("chrono_stat")?,
        snd_cwnd: tcp("snd_cwnd")?,
        snd_ssthresh: tcp("snd_ssthresh")?,
        mss_cache: tcp("mss_cache")?,
        ca_state: btf.offset_bits("tcp_sock", "inet_conn.icsk_ca_state")? / 8,
        retransmits: tcp("inet_conn.icsk_retransmits")?,
        snd_una: tcp("snd_una")?,
        delivered_ce: tcp("delivered_ce")?,
        rcv_nxt: tcp("rcv_nxt")?,
        rcv_wup: tcp("rcv_wup")?,
        rcv_wnd: tcp("rcv_wnd")?,
        is_mptcp: or_none(tcp("is_mptcp")),
        scaling_ratio: or_none(tcp("scaling_ratio")),
        congestion: tcp("inet_conn.icsk_ca_ops")?,
        net_inode: btf.offset_bytes("net", "ns.inum")?,
        net_congestion: btf.offset_bytes("net", "ipv4.tcp_congestion_control")?,
        net_tcp_wmem: offsets::last_of_three(btf, "ipv4.sysctl_tcp_wmem")?,
        net_tcp_rmem: offsets::last_of_three(btf, "ipv4.sysctl_tcp_rmem")?,
        net_moderate_rcvbuf: btf.offset_bytes("net", "ipv4.sysctl_tcp_moderate_rcvbuf")?,
        congestion_name: btf.offset_bytes("tcp_congestion_ops", "name")?,
        cgroup_node: btf.offset_bytes("cgroup", "kn")?,
        node_id: btf.offset_bytes("kernfs_node", "id")?,
        cgroup_parent: btf.offset_bytes("cgroup", "self.parent")?,
        state_cgroup: btf.offset_bytes("cgroup_subsys_state", "cgroup")?,
        route_device: btf.offset_bytes("dst_entry", "dev")?,
        device_name: btf.offset_bytes("net_device", "name")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_read_from_the_output() {
        let outcome = Passed::of(b"aaclad");
        let expected = Passed { adopted: 3, changed: 1, left: 1, divided: 1 };
        assert_eq!(outcome, expected);
        assert!(!outcome.is_done() && Passed::of(b"").is_done());
        assert_eq!(outcome.and(outcome).adopted, 6);
    }

    #[test]
    fn this_kernel_has_what_is_read_of_a_socket() {
        let Ok(btf) = KernelBtf::read() else { return };
        let offsets = sock_offsets(&btf).unwrap();
        assert!(offsets.remote_v4 != offsets.local_v4 && offsets.cgroup > offsets.state);
    }
}
