//! Where this kernel has what programs read of its structures, by its type information.

use wad_common::{
    choices::ChoiceOffsets, defaults::DefaultOffsets, process::TaskOffsets, sock::SockOffsets,
};
use wad_struct_ops::{BtfError, KernelBtf};

/// Returns where a socket has what its application chose.
pub fn choices(btf: &KernelBtf) -> Result<ChoiceOffsets, BtfError> {
    let bit = |path| btf.offset_bits("tcp_sock", path);
    let userlocks = bit("inet_conn.icsk_inet.sk.sk_userlocks")?;
    let congestion = bit("inet_conn.icsk_ca_setsockopt")?;
    Ok(ChoiceOffsets {
        userlocks: userlocks / 8,
        userlocks_shift: userlocks % 8,
        congestion: congestion / 8,
        congestion_mask: 1 << (congestion % 8),
    })
}

/// Returns where a network namespace has the sizes that buffers begin with.
pub fn defaults(btf: &KernelBtf) -> Result<DefaultOffsets, BtfError> {
    // The second of three.
    let middle = |sysctl| Ok(btf.offset_bytes("net", sysctl)? + size_of::<libc::c_int>() as u32);
    Ok(DefaultOffsets {
        net: btf.offset_bytes("tcp_sock", "inet_conn.icsk_inet.sk.__sk_common.skc_net.net")?,
        tcp_wmem: middle("ipv4.sysctl_tcp_wmem")?,
        tcp_rmem: middle("ipv4.sysctl_tcp_rmem")?,
    })
}

/// Returns where a task has what is said of its process.
pub fn task(btf: &KernelBtf) -> Result<TaskOffsets, BtfError> {
    let of_task = |member| btf.offset_bytes("task_struct", member);
    Ok(TaskOffsets {
        tgid: of_task("tgid")?,
        group_leader: of_task("group_leader")?,
        comm: of_task("comm")?,
        socket_sk: btf.offset_bytes("socket", "sk")?,
    })
}

/// Returns where `struct net` has the last number of a setting that is three.
pub fn last_of_three(btf: &KernelBtf, sysctl: &str) -> Result<u32, BtfError> {
    Ok(btf.offset_bytes("net", sysctl)? + 2 * size_of::<libc::c_int>() as u32)
}

/// Returns where a socket has what is read of it while it runs.
pub fn sock(btf: &KernelBtf) -> Result<SockOffsets, BtfError> {
    let tcp = |member| btf.offset_bytes("tcp_sock", member);
    let sock =
        |member: &str| btf.offset_bytes("tcp_sock", &format!("inet_conn.icsk_inet.sk.{member}"));
    let common = |member: &str| sock(&format!("__sk_common.{member}"));
    // Not every kernel has IPv6, or multipath TCP.
    let or_none = |offset: Result<u32, BtfError>| offset.unwrap_or(0);
    let chrono_type_bits = btf.offset_bits("tcp_sock", "chrono_type")?;
    Ok(SockOffsets {
        state: common("skc_state")?,
        shutdown: sock("sk_shutdown")?,
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
        // Before Linux 5.15 it is in the same place under another name.
        cgroup: sock("sk_cgrp_data.cgroup").or_else(|_| sock("sk_cgrp_data.val"))?,
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
        net_tcp_wmem: last_of_three(btf, "ipv4.sysctl_tcp_wmem")?,
        net_tcp_rmem: last_of_three(btf, "ipv4.sysctl_tcp_rmem")?,
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
    fn this_kernel_has_what_is_read_of_a_socket() {
        let Ok(btf) = KernelBtf::read() else { return };
        let offsets = sock(&btf).unwrap();
        assert!(offsets.remote_v4 != offsets.local_v4 && offsets.cgroup > offsets.state);
    }
}
