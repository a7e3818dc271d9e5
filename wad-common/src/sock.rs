//! These offsets say where the fields lie that the tuner reads of a socket that runs
//! already, in the running kernel's structs.
//!
//! Resolved by the agent as those of [`crate::tcp_sock`] are.

use crate::record;

/// Offsets in bytes from the start of `struct tcp_sock`, unless said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SockOffsets {
    /// `skc_state`: state of the connection, a byte.
    pub state: u32,
    /// `sk_shutdown`: the directions that are shut down, a byte.
    pub shutdown: u32,
    /// `skc_cookie`: a number that no other socket of this boot has, 64 bits; 0 until somebody
    /// asks for it.
    pub cookie: u32,
    /// `sk_socket`: the socket as a file, a pointer, null where no process holds it.
    pub file: u32,
    /// `skc_family`: AF_INET or AF_INET6, 16 bits.
    pub family: u32,
    /// `skc_daddr`: remote IPv4 address.
    pub remote_v4: u32,
    /// `skc_rcv_saddr`: local IPv4 address.
    pub local_v4: u32,
    /// `skc_v6_daddr`: remote IPv6 address.
    pub remote_v6: u32,
    /// `skc_v6_rcv_saddr`: local IPv6 address.
    pub local_v6: u32,
    /// `skc_dport`: remote port in network byte order, 16 bits.
    pub remote_port: u32,
    /// `skc_num`: local port in host byte order, 16 bits.
    pub local_port: u32,
    /// `skc_net`: its network namespace, a pointer.
    pub net: u32,
    /// `sk_cgrp_data.cgroup`: its cgroup, a pointer.
    pub cgroup: u32,
    /// `sk_uid`: the user that it belongs to, 32 bits.
    pub user: u32,
    /// `sk_mark`: the mark of its packets, 32 bits.
    pub mark: u32,
    /// `sk_dst_cache`: the route that its packets take, a pointer, null for none.
    pub route: u32,
    /// `sk_rmem_alloc`: memory that received data takes, bytes.
    pub rmem_alloc: u32,
    /// `sk_wmem_queued`: memory that data to be sent takes, bytes.
    pub wmem_queued: u32,
    /// `sk_sndbuf`: the send buffer, bytes.
    pub sndbuf: u32,
    /// `sk_rcvbuf`: the receive buffer, bytes.
    pub rcvbuf: u32,
    /// `rcvq_space.space`: what the application took in a round trip, bytes.
    pub rcvq_space: u32,
    /// `rcv_rtt_est.rtt_us`: RTT as this end sees it by what it receives, eight times it;
    /// 0 for none.
    pub rcv_rtt: u32,
    /// `out_of_order_queue`: what has arrived behind a hole, a pointer, null for nothing.
    pub out_of_order: u32,
    /// `sk_max_pacing_rate`: most bytes per second, an `unsigned long`.
    pub max_pacing_rate: u32,
    /// `inet_conn.icsk_user_timeout`: TCP_USER_TIMEOUT, milliseconds.
    pub user_timeout: u32,
    /// `bytes_acked`: octets acknowledged, 64 bits.
    pub bytes_acked: u32,
    /// `bytes_received`: octets received, 64 bits.
    pub bytes_received: u32,
    /// `data_segs_out`: segments sent with data.
    pub data_segs_out: u32,
    /// `packets_out`: segments that are sent and not acknowledged.
    pub packets_out: u32,
    /// `total_retrans`: segments retransmitted.
    pub total_retrans: u32,
    /// `srtt_us`: smoothed RTT, eight times it.
    pub srtt_us: u32,
    /// `rtt_min`: the value of its first sample, microseconds.
    pub rtt_min: u32,
    /// `rate_delivered`: segments of the latest sample of the delivery rate.
    pub rate_delivered: u32,
    /// `rate_interval_us`: the time that they took.
    pub rate_interval_us: u32,
    /// `app_limited`: not 0 while what is on its way was limited by the application.
    pub app_limited: u32,
    /// The byte that holds `chrono_type`, two bits.
    pub chrono_type: u32,
    /// They begin so many bits up in the byte.
    pub chrono_type_shift: u32,
    /// `chrono_start`: ticks of the clock when it came to be so.
    pub chrono_start: u32,
    /// `chrono_stat`: ticks spent, three numbers.
    pub chrono_stat: u32,
    /// `snd_cwnd`: congestion window, segments.
    pub snd_cwnd: u32,
    /// `snd_ssthresh`: slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// `mss_cache`: payload of a segment.
    pub mss_cache: u32,
    /// `inet_conn.icsk_ca_state`: state of congestion control, in the low bits of its
    /// byte.
    pub ca_state: u32,
    /// `inet_conn.icsk_retransmits`: timeouts in a row, a byte.
    pub retransmits: u32,
    /// `snd_una`: the first octet that is not acknowledged.
    pub snd_una: u32,
    /// `delivered_ce`: segments that were acknowledged with ECE.
    pub delivered_ce: u32,
    /// `rcv_nxt`: the sequence number that is expected next.
    pub rcv_nxt: u32,
    /// `rcv_wup`: that number when a window was offered last.
    pub rcv_wup: u32,
    /// `rcv_wnd`: the window that was offered then.
    pub rcv_wnd: u32,
    /// `scaling_ratio`: payload in 256 bytes of receive buffer, a byte; 0 where
    /// the kernel has none (before Linux 6.6).
    pub scaling_ratio: u32,
    /// `is_mptcp`: whether it is a multipath TCP subflow, a byte; 0 where the kernel
    /// has none.
    pub is_mptcp: u32,
    /// `inet_conn.icsk_ca_ops`: its algorithm, a pointer.
    pub congestion: u32,
    /// `ns.inum` of `struct net` is the inode of the namespace.
    pub net_inode: u32,
    /// `ipv4.tcp_congestion_control` of `struct net` is the namespace's default
    /// algorithm, a pointer.
    pub net_congestion: u32,
    /// `ipv4.sysctl_tcp_wmem[2]` of `struct net`: up to there the kernel sizes send
    /// buffers, 32 bits.
    pub net_tcp_wmem: u32,
    /// `ipv4.sysctl_tcp_rmem[2]` of `struct net`: up to there it sizes receive buffers,
    /// 32 bits.
    pub net_tcp_rmem: u32,
    /// `ipv4.sysctl_tcp_moderate_rcvbuf` of `struct net`: whether it sizes those, a byte.
    pub net_moderate_rcvbuf: u32,
    /// `name` is of `struct tcp_congestion_ops`.
    pub congestion_name: u32,
    /// `kn` of `struct cgroup` is its place in the file system, a pointer.
    pub cgroup_node: u32,
    /// `id` of `struct kernfs_node` is the inode number, 64 bits.
    pub node_id: u32,
    /// `self.parent` of `struct cgroup` is a pointer, null for the root.
    pub cgroup_parent: u32,
    /// `cgroup` of `struct cgroup_subsys_state` is a pointer.
    pub state_cgroup: u32,
    /// `dev` of `struct dst_entry` is the device that a route leaves by, a pointer.
    pub route_device: u32,
    /// `name` of `struct net_device` is its name,
    /// [`INTERFACE_BYTES`](crate::policy::INTERFACE_BYTES) long; what stands behind the first
    /// zero means nothing.
    pub device_name: u32,
}
record!(SockOffsets, size = 256);
