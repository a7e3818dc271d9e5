//! Where the kernel has what is read of a socket.

use wad_common::sock::SockOffsets;

/// The agent sets it before the programs are loaded, and freezes it. It is not all zeros: LLVM
/// merges constants that are alike, and there are others of zeros.
#[unsafe(no_mangle)]
pub static SOCK: SockOffsets = SockOffsets {
    state: u32::MAX,
    shutdown: 0,
    cookie: 0,
    file: 0,
    family: 0,
    remote_v4: 0,
    local_v4: 0,
    remote_v6: 0,
    local_v6: 0,
    remote_port: 0,
    local_port: 0,
    net: 0,
    cgroup: 0,
    user: 0,
    mark: 0,
    route: 0,
    rmem_alloc: 0,
    wmem_queued: 0,
    sndbuf: 0,
    rcvbuf: 0,
    rcvq_space: 0,
    rcv_rtt: 0,
    out_of_order: 0,
    max_pacing_rate: 0,
    user_timeout: 0,
    bytes_acked: 0,
    bytes_received: 0,
    data_segs_out: 0,
    packets_out: 0,
    total_retrans: 0,
    srtt_us: 0,
    rtt_min: 0,
    rate_delivered: 0,
    rate_interval_us: 0,
    app_limited: 0,
    chrono_type: 0,
    chrono_type_shift: 0,
    chrono_start: 0,
    chrono_stat: 0,
    snd_cwnd: 0,
    snd_ssthresh: 0,
    mss_cache: 0,
    ca_state: 0,
    retransmits: 0,
    snd_una: 0,
    delivered_ce: 0,
    rcv_nxt: 0,
    rcv_wup: 0,
    rcv_wnd: 0,
    scaling_ratio: 0,
    is_mptcp: 0,
    congestion: 0,
    net_inode: 0,
    net_congestion: 0,
    net_tcp_wmem: 0,
    net_tcp_rmem: 0,
    net_moderate_rcvbuf: 0,
    congestion_name: 0,
    cgroup_node: 0,
    node_id: 0,
    cgroup_parent: 0,
    state_cgroup: 0,
    route_device: 0,
    device_name: 0,
};

/// Returns the place of a field, or what else the agent has set there.
macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const $crate::socket::visited::offsets::SOCK.$field).read_volatile() }
    };
}

pub(super) use offset;
