//! The registration of our congestion controls with the kernel.

use std::{collections::HashMap, os::fd::BorrowedFd};

use tracing::warn;
use wad_common::tcp_sock::{RateSampleOffsets, TcpSockOffsets};
use wad_policy::{
    config::{Congestion, PathPolicy},
    law::{self, Law},
};
use wad_struct_ops::{
    self as struct_ops, BtfError, Callback, CongestionControl, KernelBtf, LinkedObject,
    StructOpsError,
};

use super::{Pins, Result, objects, open_maps::OpenMaps, pinned_maps};
use crate::instance::Instance;

/// The laws that these paths name and that are not registered yet.
pub fn missing(pins: &Pins, instance: &Instance, paths: &[PathPolicy]) -> Vec<Law> {
    let is_named = |law: &Law| {
        let ours = Some(Congestion::Ours(*law));
        paths.iter().any(|path| !path.observe && path.congestion == ours)
    };
    let is_there = |law: &Law| pins.at(&instance.algorithm(law.name())).exists();
    Law::ALL.iter().copied().filter(|law| is_named(law) && !is_there(law)).collect()
}

/// Loads these laws. Only those that are needed: the verifier takes a second for some
/// of them.
pub fn load(
    maps: &OpenMaps,
    instance: &Instance,
    laws: &[Law],
    btf: &KernelBtf,
) -> Result<Vec<CongestionControl>> {
    if laws.is_empty() || struct_ops::unsound(btf).is_some() {
        return Ok(Vec::new());
    }
    let named = |law: &Law| (*law, instance.algorithm(law.name()));
    let maps = maps.these(pinned_maps::OF_LAWS)?;
    load_with(&maps, &laws.iter().map(named).collect::<Vec<_>>(), btf)
}

/// Loads laws, each for its name, with these maps.
pub fn load_with(
    maps: &HashMap<&str, BorrowedFd<'_>>,
    laws: &[(Law, String)],
    btf: &KernelBtf,
) -> Result<Vec<CongestionControl>> {
    let tcp_sock = tcp_sock_offsets(btf).map_err(StructOpsError::from)?;
    let rate_sample = rate_sample_offsets(btf).map_err(StructOpsError::from)?;
    let globals = HashMap::from([
        ("TCP_SOCK", (pinned_maps::bytes(&tcp_sock), true)),
        ("RATE_SAMPLE", (pinned_maps::bytes(&rate_sample), true)),
    ]);
    let object =
        LinkedObject::link(objects::congestion(), globals, maps).map_err(StructOpsError::from)?;
    let load = |(law, name): &(Law, String)| {
        Ok(CongestionControl::load(name, &callbacks(*law), &object, btf)?)
    };
    laws.iter().map(load).collect()
}

/// Registers and pins them: those that another build has registered, in their places.
pub fn register(pins: &Pins, before: Option<&Pins>, laws: Vec<CongestionControl>) -> Result<()> {
    let theirs = |law: &CongestionControl| {
        before.map(|before| before.at(law.name())).filter(|pin| pin.exists())
    };
    // Others first, whose names may be taken: then all is as it was.
    let (replacing, others): (Vec<_>, Vec<_>) =
        laws.into_iter().partition(|law| theirs(law).is_some());
    for law in others.into_iter().chain(replacing) {
        let pin = pins.at(law.name());
        match theirs(&law) {
            Some(theirs) => law.replace(&theirs, &pin)?,
            None => law.register(&pin)?,
        }
    }
    Ok(())
}

/// Puts those in force again that another build has begun to put its own in the places of: they are
/// pinned by both.
pub fn take_back(
    pins: &Pins,
    other: &Pins,
    (maps, instance, btf): (&OpenMaps, &Instance, &KernelBtf),
) -> Result<()> {
    let is_of_both = |law: &Law| {
        let name = instance.algorithm(law.name());
        pins.at(&name).exists() && other.at(&name).exists()
    };
    let laws: Vec<Law> = Law::ALL.iter().copied().filter(is_of_both).collect();
    for law in load(maps, instance, &laws, btf)? {
        let (theirs, own) = (other.at(law.name()), pins.at(law.name()));
        law.take_back(&theirs, &own)?;
    }
    Ok(())
}

/// Takes laws out again that were registered for policies that did not come into force. Those that
/// a policy before has named stay: they cost no flow anything, and are wanted again as what is
/// measured or heard changes, when the verifier would take up to a second for each.
pub fn unregister(pins: &Pins, instance: &Instance, laws: &[Law]) {
    for law in laws {
        let pin = pins.at(&instance.algorithm(law.name()));
        if !pin.exists() {
            continue;
        }
        if let Err(error) = CongestionControl::unpin(&pin) {
            warn!("cannot remove {}: {error}", pin.display());
        }
    }
}

fn callbacks(law: Law) -> Vec<Callback> {
    let callback =
        |callback: &law::Callback| Callback { member: callback.member, program: callback.program };
    law.entry().callbacks.iter().map(callback).collect()
}

fn tcp_sock_offsets(btf: &KernelBtf) -> Result<TcpSockOffsets, BtfError> {
    let tcp_sock = btf.structure("tcp_sock")?;
    let offset = |member| Ok::<_, BtfError>(tcp_sock.member(member)?.offset_bytes());
    let within = |path| btf.offset_bytes("tcp_sock", path);
    let limited = tcp_sock.member("is_cwnd_limited")?;
    let userlocks_bits = btf.offset_bits("tcp_sock", "inet_conn.icsk_inet.sk.sk_userlocks")?;
    Ok(TcpSockOffsets {
        snd_cwnd: offset("snd_cwnd")?,
        snd_ssthresh: offset("snd_ssthresh")?,
        snd_cwnd_clamp: offset("snd_cwnd_clamp")?,
        snd_cwnd_cnt: offset("snd_cwnd_cnt")?,
        prior_cwnd: offset("prior_cwnd")?,
        max_packets_out: offset("max_packets_out")?,
        is_cwnd_limited: limited.offset_bytes(),
        is_cwnd_limited_mask: limited.bit_mask(),
        srtt_us: offset("srtt_us")?,
        mss_cache: offset("mss_cache")?,
        delivered: offset("delivered")?,
        delivered_ce: offset("delivered_ce")?,
        packets_out: offset("packets_out")?,
        sacked_out: offset("sacked_out")?,
        lost_out: offset("lost_out")?,
        retrans_out: offset("retrans_out")?,
        total_retrans: offset("total_retrans")?,
        rate_delivered: offset("rate_delivered")?,
        rate_interval_us: offset("rate_interval_us")?,
        rack_rtt: within("rack.rtt_us")?,
        tcp_mstamp: offset("tcp_mstamp")?,
        icsk_ca_state: within("inet_conn.icsk_ca_state")?,
        icsk_ca_priv: within("inet_conn.icsk_ca_priv")?,
        sk_pacing_rate: within("inet_conn.icsk_inet.sk.sk_pacing_rate")?,
        sk_max_pacing_rate: within("inet_conn.icsk_inet.sk.sk_max_pacing_rate")?,
        sk_pacing_status: within("inet_conn.icsk_inet.sk.sk_pacing_status")?,
        sk_sndbuf: within("inet_conn.icsk_inet.sk.sk_sndbuf")?,
        userlocks: userlocks_bits / 8,
        userlocks_shift: userlocks_bits % 8,
        net: within("inet_conn.icsk_inet.sk.__sk_common.skc_net.net")?,
        net_tcp_wmem: super::offsets::last_of_three(btf, "ipv4.sysctl_tcp_wmem")?,
        congestion: within("inet_conn.icsk_ca_ops")?,
        congestion_name: btf.offset_bytes("tcp_congestion_ops", "name")?,
        cookie: within("inet_conn.icsk_inet.sk.__sk_common.skc_cookie")?,
    })
}

fn rate_sample_offsets(btf: &KernelBtf) -> Result<RateSampleOffsets, BtfError> {
    let rate_sample = btf.structure("rate_sample")?;
    let offset = |member| Ok::<_, BtfError>(rate_sample.member(member)?.offset_bytes());
    Ok(RateSampleOffsets {
        argument: btf.parameters("tcp_congestion_ops", "cong_control")? - 1,
        rtt_us: offset("rtt_us")?,
        losses: offset("losses")?,
        acked_sacked: offset("acked_sacked")?,
    })
}
