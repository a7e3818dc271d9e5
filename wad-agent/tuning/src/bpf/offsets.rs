//! Where this kernel has what programs read of its structures, by its type information.

use wad_common::{choices::ChoiceOffsets, defaults::DefaultOffsets, process::TaskOffsets};
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
